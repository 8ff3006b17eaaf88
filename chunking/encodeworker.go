package chunking

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"runtime"
)

// run is one worker: it reads, encodes and hands over chunks until none is left. An extra one holds grown memory.
func (e *Encoder) run(ctx context.Context, raw []byte, w worker) {
	defer func() {
		if p := recover(); p != nil {
			e.fail(fmt.Errorf("chunking: encoding panicked: %v", p))
		}
		e.o.Memory.Return(raw)
		if w == extraWorker {
			e.o.Memory.Shrink(e.o.rawCharge())
		}
		e.state.Lock()
		e.state.workers--
		e.state.Unlock()
	}()
	for {
		if w == firstWorker {
			e.spawn(ctx)
		}
		s, err := e.slot(ctx)
		if err != nil {
			e.fail(err)
			return
		}
		i, n, err := e.read(s, raw)
		if err != nil {
			e.fail(err)
			return
		}
		if i < 0 {
			e.free <- s
			return
		}
		if err := e.encode(ctx, s, i, raw, n); err != nil {
			e.fail(err)
			return
		}
		if w == extraWorker {
			var ok bool
			if raw, ok = e.renew(raw); !ok {
				w = firstWorker // nothing grown is held any more
				return
			}
		}
	}
}

// renew gives the grown buffer of an extra worker back and takes it again unless somebody waits for the bytes.
func (e *Encoder) renew(raw []byte) ([]byte, bool) {
	n := e.o.rawCap()
	if n == 0 {
		return nil, true
	}
	e.o.Memory.Return(raw)
	e.o.Memory.Shrink(e.o.rawCharge())
	if e.taken.Load() >= e.count {
		return nil, false
	}
	raw = e.grown(n)
	return raw, raw != nil
}

// spawn starts another worker if there is work for one and memory to be had at once.
func (e *Encoder) spawn(ctx context.Context) {
	e.state.Lock()
	more := e.state.workers < e.o.Workers && e.count-e.taken.Load() > int64(e.state.workers)
	if more {
		e.state.workers++
	}
	e.state.Unlock()
	if !more {
		return
	}
	var raw []byte
	if n := e.o.rawCap(); n > 0 {
		if raw = e.grown(n); raw == nil {
			e.state.Lock()
			e.state.workers--
			e.state.Unlock()
			return
		}
	}
	e.work.Go(func() { e.run(ctx, raw, extraWorker) })
}

// slot waits for a slot that a chunk can go into. If none is free at once it tries to add one.
func (e *Encoder) slot(ctx context.Context) (*slot, error) {
	select {
	case s := <-e.free:
		return s, ctx.Err()
	default:
	}
	if s := e.addSlot(); s != nil {
		return s, ctx.Err()
	}
	select {
	case s := <-e.free:
		return s, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (e *Encoder) addSlot() *slot {
	if e.taken.Load() >= e.count {
		return nil // the worker will find that nothing is left
	}
	e.state.Lock()
	n := len(e.state.idle)
	if n == 0 {
		e.state.Unlock()
		return nil
	}
	s := e.state.idle[n-1]
	e.state.idle = e.state.idle[:n-1]
	e.state.Unlock()
	if s.buf = e.grown(e.o.storedCap()); s.buf != nil {
		return s
	}
	e.state.Lock()
	e.state.idle = append(e.state.idle, s)
	e.state.Unlock()
	return nil
}

// read takes the next chunk from the source: its number and how many bytes it has, -1 when there is none. The slot is then
// in the order of chunks. Behind the last chunk the source must end.
func (e *Encoder) read(s *slot, raw []byte) (int64, int, error) {
	e.source.Lock()
	defer e.source.Unlock()
	i := e.source.next
	if i == e.count {
		return -1, 0, nil
	}
	e.taken.Add(1)
	buf := raw
	if e.o.Codecs == nil {
		buf = s.buf
	}
	n := int(min(int64(e.o.ChunkBytes), e.source.left))
	got, err := io.ReadFull(e.source.src, buf[:n])
	if err != nil && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)) {
		return 0, 0, fmt.Errorf("%w: it ended after %d of %d bytes", ErrSourceSize, e.o.PlainBytes-e.source.left+int64(got), e.o.PlainBytes)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("read source: %w", err)
	}
	e.source.left -= int64(n)
	e.source.next++
	e.order <- s // has room for every slot
	if e.source.next == e.count {
		return i, n, e.end()
	}
	return i, n, nil
}

// end checks that the source has nothing more and closes the order of chunks.
func (e *Encoder) end() error {
	var one [1]byte
	n, err := io.ReadFull(e.source.src, one[:])
	if n > 0 {
		return fmt.Errorf("%w: it goes on after %d bytes", ErrSourceSize, e.o.PlainBytes)
	}
	if !errors.Is(err, io.EOF) {
		return fmt.Errorf("read source: %w", err)
	}
	close(e.order)
	return nil
}

// encode turns the n bytes of chunk i into their stored form in s.
func (e *Encoder) encode(ctx context.Context, s *slot, i int64, raw []byte, n int) error {
	out := s.buf[:n] // read there already, or about to be replaced
	if e.o.Codecs != nil {
		codec, err := e.o.Codecs.Acquire(ctx)
		if err != nil {
			return err
		}
		out = codec.Compress(s.buf[:0], raw[:n])
		e.o.Codecs.Release(codec)
	}
	if e.o.Key != nil {
		out = e.o.Key.Seal(out[:0], out)
	}
	e.sizes[i], e.crcs[i] = int32(len(out)), crc32.Checksum(out, castagnoli)
	s.out = out
	s.ready <- struct{}{} // has room: the slot carries one chunk at a time
	runtime.Gosched()     // the reader, who may wait for this chunk, goes before the next one is encoded
	return nil
}
