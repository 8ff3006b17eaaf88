package manifest

import (
	"bytes"
	"strconv"

	"github.com/tierkit/tierkit/chunking"
	"github.com/tierkit/tierkit/internal/b64"
	"github.com/tierkit/tierkit/remotelog"
)

// Parse reads a manifest. Every error is remotelog.ErrCorrupt. The result does not refer to data.
func Parse(data []byte) (*Manifest, error) {
	if len(data) > MaxBytes {
		return nil, corrupt("", "%d bytes, at most %d are read", len(data), MaxBytes)
	}
	p := &parser{scanner: scanner{data: bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))}, m: &Manifest{}}
	if err := p.root(); err != nil {
		return nil, err
	}
	if err := p.m.check(); err != nil {
		return nil, err
	}
	if p.m.Metadata == nil && p.m.MetadataProblem == "" {
		p.m.MetadataProblem = "remoteLogSegmentMetadata is missing"
	}
	return p.m, nil
}

// parser fills m. Where a field occurs twice the last one wins, as in Jackson; both must be well-formed.
type parser struct {
	scanner
	m *Manifest
}

// seen is the set of fields that an object had, by their position in a list of names.
type seen uint32

// object reads a value that must be an object with fields of these names only, and calls f for each. It returns which there were.
// Unknown fields are errors: the plug-in refuses them, so they are no way to extend the format.
func (p *parser) object(path string, names []string, f func(name, path string) error) (seen, error) {
	t, err := p.next()
	if err != nil {
		return 0, corrupt(path, "%w", err)
	}
	return p.objectFrom(t, path, names, f)
}

func (p *parser) objectFrom(t token, path string, names []string, f func(name, path string) error) (seen, error) {
	if t.kind != tokObject {
		return 0, corrupt(path, "%v, want an object", t)
	}
	var had seen
	var failed error // has its path already
	err := p.fields(func(name string) error {
		i := index(names, name)
		if i < 0 {
			failed = corrupt(join(path, name), "unknown field")
			return failed
		}
		had |= 1 << i
		failed = f(name, join(path, name))
		return failed
	})
	if failed != nil {
		return 0, failed
	}
	if err != nil {
		return 0, corrupt(path, "%w", err)
	}
	return had, nil
}

// require reports the first of the names that is not in had.
func require(had seen, path string, names, required []string) error {
	for _, name := range required {
		if had&(1<<index(names, name)) == 0 {
			return corrupt(join(path, name), "missing")
		}
	}
	return nil
}

func index(names []string, name string) int {
	for i, n := range names {
		if n == name {
			return i
		}
	}
	return -1
}

// join names a field in an error, on one line and of bounded length whatever the manifest has for a name.
func join(path, name string) string {
	const most = 60
	q := strconv.Quote(name[:min(len(name), most)])
	q = q[1 : len(q)-1]
	if path == "" {
		return q
	}
	return path + "." + q
}

func (p *parser) root() error {
	names := []string{"version", "chunkIndex", "segmentIndexes", "compression", "encryption", "remoteLogSegmentMetadata"}
	had, err := p.object("", names, p.rootField)
	if err != nil {
		return err
	}
	return require(had, "", names, names[:4])
}

func (p *parser) rootField(name, path string) error {
	switch name {
	case "version":
		t, err := p.next()
		if err != nil {
			return corrupt(path, "%w", err)
		}
		if t.kind != tokString && t.kind != tokInt || t.text != version {
			return corrupt(path, "%v, want %q: a newer format, or not a manifest", t, version)
		}
		return nil
	case "chunkIndex":
		return p.chunkIndex(path)
	case "segmentIndexes":
		return p.segmentIndexes(path)
	case "compression":
		t, err := p.next()
		if err == nil {
			p.m.Compression, err = boolOf(t)
		}
		if err != nil {
			return corrupt(path, "%w", err)
		}
		return nil
	case "encryption":
		return p.encryption(path)
	default:
		return p.metadata(path)
	}
}

func (p *parser) int32(path string) (int64, error) {
	t, err := p.next()
	if err != nil {
		return 0, corrupt(path, "%w", err)
	}
	v, err := int32Of(t)
	if err != nil {
		return 0, corrupt(path, "%w", err)
	}
	if v < 0 {
		return 0, corrupt(path, "%d is negative", v)
	}
	return v, nil
}

func (p *parser) text(path string) (string, error) {
	t, err := p.next()
	if err != nil {
		return "", corrupt(path, "%w", err)
	}
	if t.kind != tokString {
		return "", corrupt(path, "%v, want a string", t)
	}
	return t.text, nil
}

// chunkIndex reads the fields of both kinds of index before it knows which it is: type may stand anywhere.
func (p *parser) chunkIndex(path string) error {
	names := []string{"type", "originalChunkSize", "originalFileSize", "transformedChunkSize", "finalTransformedChunkSize", "transformedChunks"}
	var kind, text string
	ints := map[string]int64{}
	had, err := p.object(path, names, func(name, path string) (err error) {
		switch name {
		case "type":
			kind, err = p.text(path)
		case "transformedChunks":
			text, err = p.text(path)
		default:
			ints[name], err = p.int32(path)
		}
		return err
	})
	if err != nil {
		return err
	}
	var own []string
	switch kind {
	case "fixed":
		own = []string{"type", "originalChunkSize", "originalFileSize", "transformedChunkSize", "finalTransformedChunkSize"}
	case "variable":
		own = []string{"type", "originalChunkSize", "originalFileSize", "transformedChunks"}
	default:
		return corrupt(join(path, "type"), "%.40q is neither fixed nor variable", kind)
	}
	if err := require(had, path, names, own); err != nil {
		return err
	}
	for i, name := range names {
		if had&(1<<i) != 0 && index(own, name) < 0 {
			return corrupt(join(path, name), "unknown field in a %s index", kind)
		}
	}
	if kind == "fixed" {
		p.m.Chunks, err = chunking.NewFixed(ints[names[1]], ints[names[2]], ints[names[3]], ints[names[4]])
	} else {
		p.m.Chunks, err = chunking.ParseVariable(ints[names[1]], ints[names[2]], text)
	}
	if err != nil {
		return corrupt(path, "%w", err)
	}
	return nil
}

func (p *parser) segmentIndexes(path string) error {
	names := make([]string, 0, 5)
	for _, t := range StoredOrder() {
		names = append(names, fieldName(t))
	}
	var x Indexes
	had, err := p.object(path, names, func(name, path string) error {
		t, err := p.next()
		if err != nil {
			return corrupt(path, "%w", err)
		}
		it := StoredOrder()[index(names, name)]
		if it == remotelog.TransactionIndex && t.kind == tokNull {
			x.Transaction = nil
			return nil
		}
		var part Part
		if part, err = p.part(t, path); err != nil {
			return err
		}
		if it == remotelog.TransactionIndex {
			x.Transaction = &part
		} else {
			*x.part(it) = part
		}
		return nil
	})
	if err != nil {
		return err
	}
	p.m.Indexes = x
	return require(had, path, names, names)
}

func (p *parser) part(t token, path string) (Part, error) {
	names := []string{"position", "size"}
	var part Part
	had, err := p.objectFrom(t, path, names, func(name, path string) (err error) {
		if name == "position" {
			part.Position, err = p.int32(path)
		} else {
			part.Size, err = p.int32(path)
		}
		return err
	})
	if err != nil {
		return Part{}, err
	}
	return part, require(had, path, names, names)
}

func (p *parser) encryption(path string) error {
	p.m.Encryption = nil
	t, err := p.next()
	if err != nil {
		return corrupt(path, "%w", err)
	}
	if t.kind == tokNull {
		return nil
	}
	names := []string{"dataKey", "aad"}
	var e Encryption
	had, err := p.objectFrom(t, path, names, func(name, path string) (err error) {
		if name == "dataKey" {
			e.DataKey, err = p.text(path)
			return err
		}
		text, err := p.text(path)
		if err != nil {
			return err
		}
		if e.AAD, err = b64.Decode(text); err != nil {
			return corrupt(path, "%w", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	p.m.Encryption = &e
	return require(had, path, names, names)
}
