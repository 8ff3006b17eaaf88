package filelog

import (
	"errors"
	"fmt"

	"github.com/tierkit/tierkit/remotelog"
)

var (
	// ErrLocked: another process, or another Log of this process, has the directory open for writing.
	ErrLocked = errors.New("metadata log is in use by another writer")
	// ErrWritesRefused: an earlier write ended in such a way that it is not known what is on the disk. Opening the log again
	// finds out.
	ErrWritesRefused = errors.New("metadata log refuses writes until it is opened again")
	// ErrNewerFormat: the file was written by a later version of this program.
	ErrNewerFormat = errors.New("metadata log has a newer format than this program knows")
	// ErrReplaced: the file that a read-only Log follows was moved away or replaced by another.
	ErrReplaced = errors.New("metadata log was replaced while it was open")
)

// CorruptError is damage: bytes that no crash can have left. It matches remotelog.ErrCorrupt.
type CorruptError struct {
	// File is the path of the damaged file.
	File string
	// Position is where in the file the damaged header or group begins.
	Position int64
	// Reason says what is wrong there.
	Reason string
}

// Error implements error.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("metadata log %s is damaged at byte %d: %s; nothing was changed: restore the file from a copy", e.File, e.Position, e.Reason)
}

// Is makes the error match remotelog.ErrCorrupt.
func (e *CorruptError) Is(target error) bool { return target == remotelog.ErrCorrupt }

// newer says that something in a file is beyond this version.
func newer(file, what string, got uint64) error {
	return fmt.Errorf("%s: %s %#x: %w", file, what, got, ErrNewerFormat)
}
