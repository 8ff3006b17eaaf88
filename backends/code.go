package backends

import (
	"fmt"
	"io/fs"
)

// Code classifies an error. Numbers are stable: they are metric labels. New codes are added at the end.
type Code uint8

// The codes.
const (
	Unknown         Code = 0
	NotFound        Code = 1  // the object does not exist; a missing bucket or root is InvalidArgument
	Exists          Code = 2  // IfAbsent, and the key is there
	Precondition    Code = 3  // IfVersion, and the object is another one
	InvalidRange    Code = 4  // the range starts at the end of the object or behind it
	InvalidArgument Code = 5  // the call can never succeed: bad key, bad setting, missing bucket
	SizeMismatch    Code = 6  // the body of a Put delivered another number of bytes than announced
	Corrupt         Code = 7  // checksum mismatch, undecodable answer
	Unauthenticated Code = 8  // credentials missing, wrong or expired
	Denied          Code = 9  // credentials are known, the permission is missing
	ClockSkew       Code = 10 // the store refuses the time of this machine
	Throttled       Code = 11 // asked to slow down
	Exhausted       Code = 12 // quota, no space left
	Unavailable     Code = 13 // the store or the way to it fails for now
	Timeout         Code = 14 // an attempt or stall timeout of ours, not the caller's deadline
	Unsupported     Code = 15 // the store cannot do this
	Closed          Code = 16 // the Store, the Driver or the Body was closed
	Internal        Code = 17 // a driver broke its contract
)

// codes are the texts, by number.
var codes = [...]string{
	"unknown error", "not found", "already exists", "changed meanwhile", "range not in the object", "invalid argument",
	"size mismatch", "corrupt", "not authenticated", "access denied", "clock skew", "throttled", "no space or quota left",
	"unavailable", "timed out", "not supported", "closed", "internal error",
}

// labels are the names for metrics and logs, by number; as stable as the numbers.
var labels = [...]string{
	"unknown", "not_found", "exists", "precondition", "invalid_range", "invalid_argument", "size_mismatch", "corrupt",
	"unauthenticated", "denied", "clock_skew", "throttled", "exhausted", "unavailable", "timeout", "unsupported", "closed", "internal",
}

// Error makes a Code usable with errors.Is: errors.Is(err, backends.NotFound), which also matches io/fs.ErrNotExist. There is no
// second list of sentinels.
func (c Code) Error() string {
	if int(c) < len(codes) {
		return codes[c]
	}
	return fmt.Sprintf("error code %d", uint8(c))
}

// Label returns the name of the code for metrics and logs: "not_found".
func (c Code) Label() string {
	if int(c) < len(labels) {
		return labels[c]
	}
	return fmt.Sprintf("code_%d", uint8(c))
}

// Codes returns every code, in order: to make all metric series before the first event.
func Codes() []Code {
	out := make([]Code, len(codes))
	for i := range out {
		out[i] = Code(i)
	}
	return out
}

// Is makes NotFound match io/fs.ErrNotExist.
func (c Code) Is(target error) bool { return c == NotFound && target == fs.ErrNotExist }

// Temporary reports whether the same call may succeed later.
func (c Code) Temporary() bool { return c == Throttled || c == Unavailable || c == Timeout }
