package mem

import (
	"context"
	"hash/crc32"
	"io"
	"maps"

	"github.com/tierkit/tierkit/backends"
)

// step is how much is read between two looks at the context.
const step = 64 << 10

// Put implements backends.Driver. The bytes are gathered aside and become the object in one step.
func (d *Driver) Put(ctx context.Context, key string, body io.Reader, opts backends.PutOptions) (backends.Info, error) {
	if err := d.ready(ctx); err != nil {
		return backends.Info{}, err
	}
	if _, exists := d.space.get(key); exists && opts.IfAbsent {
		return backends.Info{}, backends.Exists
	}
	var charged int64
	defer func() { d.space.uncharge(charged) }() // also when body panics
	data, err := d.gather(ctx, body, opts, &charged)
	if err != nil {
		return backends.Info{}, err
	}
	if opts.CRC32C != nil {
		if sum := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)); sum != *opts.CRC32C {
			return backends.Info{}, backends.Errorf(backends.Corrupt, "the body has CRC-32C %08x, announced was %08x", sum, *opts.CRC32C)
		}
	}
	if err := d.ready(ctx); err != nil {
		return backends.Info{}, err
	}
	o, err := d.space.put(key, data, opts, maps.Clone(opts.Meta), d.now())
	if err != nil {
		return backends.Info{}, err
	}
	return o.publicInfo(), nil
}

// gather reads the body. It allocates by what arrives, never by what is announced.
func (d *Driver) gather(ctx context.Context, body io.Reader, opts backends.PutOptions, charged *int64) ([]byte, error) {
	data := make([]byte, 0, step)
	for {
		if err := d.ready(ctx); err != nil {
			return nil, err
		}
		if len(data) == cap(data) {
			data = append(data, 0)[:len(data)]
		}
		n, err := body.Read(data[len(data):min(cap(data), len(data)+step)])
		data = data[:len(data)+n]
		if opts.Size >= 0 && int64(len(data)) > opts.Size {
			return nil, backends.Errorf(backends.SizeMismatch, "the body has more than the %d bytes announced", opts.Size)
		}
		if int64(len(data)) > maxObject {
			return nil, backends.Errorf(backends.InvalidArgument, "the body has more than the %d bytes that an object can have", int64(maxObject))
		}
		if cerr := d.space.charge(int64(n), d.maxBytes); cerr != nil {
			return nil, cerr
		}
		*charged += int64(n)
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	if opts.Size >= 0 && int64(len(data)) != opts.Size {
		return nil, backends.Errorf(backends.SizeMismatch, "the body has %d bytes, announced were %d", len(data), opts.Size)
	}
	return data, nil
}

func (o *object) publicInfo() backends.Info {
	info := o.info
	info.Meta = maps.Clone(info.Meta)
	return info
}
