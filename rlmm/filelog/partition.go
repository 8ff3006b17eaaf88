package filelog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"github.com/tierkit/tierkit/remotelog"
)

// partition is one file of the log.
type partition struct {
	num  int32
	path string
	f    file
	head header
	crc  uint32 // of the header

	refreshing chan struct{} // holds a token during a refresh

	mu sync.Mutex
	st state // of a writer: what is durable; of a reader: what it has seen
	// generation changes when a part of st was taken back.
	generation int

	// Of a writer only, under mu.
	closed  bool
	pending []*request
	epoch   int32         // of the next group
	kick    chan struct{} // holds a token when pending is not empty
	buf     []byte        // of the committer alone
}

// openPartition opens a file and reads its header.
func openPartition(path string, open opener, flag int) (*partition, error) {
	f, err := open(path, flag)
	if err != nil {
		return nil, err
	}
	b := make([]byte, headerSize)
	n, err := f.ReadAt(b, 0)
	if n < headerSize && !isEOF(err) {
		return nil, errors.Join(err, f.Close())
	}
	h, crc, err := parseHeader(path, b[:n])
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &partition{
		num: h.partition, path: path, f: f, head: h, crc: crc, st: newState(h, crc),
		refreshing: make(chan struct{}, 1), kick: make(chan struct{}, 1),
	}, nil
}

// state returns what is known now, and its generation.
func (p *partition) state() (state, int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.st, p.generation
}

// scan reads on from a state and returns what it found and the size of the file.
func (p *partition) scan(ctx context.Context, st state, size int64) (state, error) {
	s := scanner{r: p.f, name: p.path, size: size}
	end := st.end
	err := s.walk(ctx, &end, st.add)
	return st, closedErr(err)
}

// load reads the whole file.
func (p *partition) load(ctx context.Context) (size int64, err error) {
	size, err = p.size()
	if err != nil {
		return 0, err
	}
	st, err := p.scan(ctx, newState(p.head, p.crc), size)
	if err != nil {
		return 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.st = st
	return size, nil
}

// refresh looks what another process has done to the file since.
func (p *partition) refresh(ctx context.Context) error {
	select {
	case p.refreshing <- struct{}{}:
		defer func() { <-p.refreshing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := p.samePath(); err != nil {
		return err
	}
	size, err := p.size()
	if err != nil {
		return err
	}
	st, generation := p.state()
	same, err := p.holds(st, size)
	if err != nil {
		return err
	}
	if same && size == st.end.pos {
		return nil
	}
	if !same { // the writer cut off what we had seen, and may have written something else there
		st = newState(p.head, p.crc)
		generation++
	}
	if st, err = p.scan(ctx, st, size); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.st, p.generation = st, generation
	return nil
}

// holds says whether the last group of st is still where it was. The groups before it never change.
func (p *partition) holds(st state, size int64) (bool, error) {
	if size < st.end.pos {
		return false, nil
	}
	at := st.last + 4
	if st.last == 0 {
		at = headerSize - 4
	}
	var b [4]byte
	if n, err := p.f.ReadAt(b[:], at); n < len(b) {
		if isEOF(err) {
			return false, nil
		}
		return false, closedErr(err)
	}
	return binary.BigEndian.Uint32(b[:]) == st.end.crc, nil
}

func (p *partition) size() (int64, error) {
	info, err := p.f.Stat()
	if err != nil {
		return 0, closedErr(err)
	}
	return info.Size(), nil
}

// samePath checks that the path still leads to the open file.
func (p *partition) samePath() error {
	mine, err := p.f.Stat()
	if err != nil {
		return closedErr(err)
	}
	there, err := os.Stat(p.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err != nil || !os.SameFile(mine, there) {
		return fmt.Errorf("%s: %w: open it again", p.path, ErrReplaced)
	}
	return nil
}

// closedErr turns the error of a file that Close closed under a reader into the log's.
func closedErr(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("metadata log in files: %w", remotelog.ErrClosed)
	}
	return err
}
