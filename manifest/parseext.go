package manifest

import (
	"fmt"
	"math"
	"strconv"

	"github.com/tierkit/tierkit/internal/b64"
)

// extReader reads Checksums. What is not as it is written counts as damage, unless the version turns out to be another.
type extReader struct {
	*scanner
	sums    Checksums
	version int64
	had     seen
	damage  error // the first one
}

var extFields = [...]string{"version", "chunkCrc32c", "indexCrc32c", "logBytes", "indexBytes"}

// extension reads the value of "tierkit" inside remoteLogSegmentMetadata.
func (d *metaReader) extension() error {
	d.checksums = nil
	t, err := d.next()
	if err != nil {
		return err
	}
	if t.kind != tokObject {
		return d.finish(t) // not ours
	}
	x := &extReader{scanner: d.scanner, version: -1}
	if err := x.fields(x.field); err != nil {
		return err
	}
	switch {
	case x.version >= 0 && x.version != extensionVersion:
		return nil // written by a later version of tierkit: its data are read without checksums
	case x.damage != nil:
		return x.damage
	}
	for i, name := range extFields {
		if x.had&(1<<i) == 0 {
			return fmt.Errorf("tierkit.%s is missing", name)
		}
	}
	d.checksums = &x.sums
	return nil
}

func (x *extReader) field(name string) error {
	if i := index(extFields[:], name); i >= 0 {
		x.had |= 1 << i
	}
	switch name {
	case "version":
		return x.number(name, math.MaxInt64, func(v int64) { x.version = v })
	case "logBytes":
		return x.number(name, math.MaxInt64, func(v int64) { x.sums.LogBytes = v })
	case "indexBytes":
		return x.number(name, math.MaxInt64, func(v int64) { x.sums.IndexBytes = v })
	case "chunkCrc32c":
		return x.chunkSums(name)
	case "indexCrc32c":
		return x.partSums(name)
	default:
		return x.skip()
	}
}

func (x *extReader) bad(name string, t token) error {
	if x.damage == nil {
		x.damage = fmt.Errorf("tierkit.%s is %v", name, t)
	}
	return x.finish(t)
}

func (x *extReader) number(name string, limit int64, set func(int64)) error {
	t, err := x.next()
	if err != nil {
		return err
	}
	v, perr := strconv.ParseInt(t.text, 10, 64)
	if t.kind != tokInt || perr != nil || v < 0 || v > limit {
		return x.bad(name, t)
	}
	set(v)
	return nil
}

func (x *extReader) chunkSums(name string) error {
	t, err := x.next()
	if err != nil {
		return err
	}
	sums, berr := b64.Decode(t.text)
	if t.kind != tokString || berr != nil || len(sums)%4 != 0 {
		return x.bad(name, t)
	}
	x.sums.chunks = sums
	return nil
}

func (x *extReader) partSums(name string) error {
	t, err := x.next()
	if err != nil {
		return err
	}
	if t.kind != tokObject {
		return x.bad(name, t)
	}
	return x.fields(func(part string) error {
		for _, it := range StoredOrder() {
			if fieldName(it) == part {
				return x.number(name+"."+part, math.MaxUint32, func(v int64) { x.sums.SetPart(it, uint32(v)) })
			}
		}
		return x.skip()
	})
}
