package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/manifest"
	"github.com/tierkit/tierkit/remotelog"
)

// manifestSuffix ends the name of a manifest.
const manifestSuffix = "." + string(manifest.ManifestSuffix)

func (a *app) inspectCmd() *cobra.Command {
	var chunks bool
	cmd := &cobra.Command{
		Use:   "inspect FILE-OR-KEY",
		Short: "decode a manifest: from a local file, or with --config from the store by its key",
		Args:  exactly(1, "a manifest: the path of a file, or with --config the key of an object"),
		RunE: func(cmd *cobra.Command, args []string) error {
			raw, err := a.readManifest(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			m, err := manifest.Parse(raw)
			switch {
			case err != nil && !strings.HasSuffix(args[0], manifestSuffix):
				return fmt.Errorf("%s: %w (the name of a manifest ends with %s)", args[0], err, manifestSuffix)
			case err != nil:
				return fmt.Errorf("%s: %w", args[0], err)
			}
			show, showChunks := a.inspectText, a.chunksText
			if a.json {
				show, showChunks = func(m *manifest.Manifest) error { return a.inspectJSON(raw, m) }, a.chunksJSON
			}
			if err := show(m); err != nil || !chunks {
				return err
			}
			return showChunks(m)
		},
	}
	cmd.Flags().BoolVar(&chunks, "chunks", false, "list every chunk with its positions and sizes")
	return cmd
}

// readManifest reads a local file if there is one of that name, else the object.
func (a *app) readManifest(ctx context.Context, name string) ([]byte, error) {
	raw, err := readBounded(remotelog.File(name).Open(ctx))
	switch {
	case err == nil:
		return raw, nil
	case a.config == "" && errors.Is(err, os.ErrNotExist):
		return nil, usagef("there is no file %s; to inspect an object of the store, give its key and --config FILE", name)
	case !errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	s, err := a.openStore(ctx)
	if err != nil {
		return nil, err
	}
	raw, err = readObject(ctx, s.store, name)
	if errors.Is(err, backends.NotFound) && !strings.HasSuffix(name, manifestSuffix) {
		raw, err = readObject(ctx, s.store, name+manifestSuffix) // ls --json tells keys without it
	}
	return raw, errors.Join(err, s.close(ctx))
}

func readObject(ctx context.Context, store *backends.Store, key string) ([]byte, error) {
	obj, err := store.Get(ctx, key, backends.GetOptions{Range: backends.All()})
	if err != nil {
		return nil, err
	}
	return readBounded(obj.Body, obj.Length, nil)
}

// readBounded reads all of r, which it closes; nothing is read of what is too large for a manifest.
func readBounded(r io.ReadCloser, size int64, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }() // read only
	if size > manifest.MaxBytes {
		return nil, fmt.Errorf("%w: %d bytes are too many for a manifest (at most %d)", remotelog.ErrCorrupt, size, manifest.MaxBytes)
	}
	raw, err := io.ReadAll(io.LimitReader(r, manifest.MaxBytes+1))
	if err == nil && len(raw) > manifest.MaxBytes {
		err = fmt.Errorf("%w: too many bytes for a manifest (at most %d)", remotelog.ErrCorrupt, manifest.MaxBytes)
	}
	return raw, err
}

// format is what inspect adds to a manifest: what its fields mean together.
type format struct {
	Chunks        int     `json:"chunks"`
	Compression   string  `json:"compression"`
	Encryption    string  `json:"encryption"`
	KeyID         *string `json:"keyId"`
	OriginalBytes int64   `json:"originalBytes"`
	StoredBytes   int64   `json:"storedBytes"`
}

func formatOf(m *manifest.Manifest) format {
	f := format{
		Chunks: m.Chunks.Chunks(), Compression: "none", Encryption: "none",
		OriginalBytes: m.Chunks.FileSize(), StoredBytes: m.Chunks.StoredSize() + m.Indexes.StoredSize(),
	}
	if m.Compression {
		f.Compression = "zstd"
	}
	if m.Encryption != nil {
		f.Encryption = "AES-256-GCM"
		id := keyID(m.Encryption.DataKey)
		f.KeyID = &id
	}
	return f
}

// keyID is the part of a wrapped data key that may be shown.
func keyID(dataKey string) string {
	id, _, _ := strings.Cut(dataKey, ":")
	return id
}

// chunkJSON is one line of inspect --json --chunks.
type chunkJSON struct {
	Chunk        int     `json:"chunk"`
	Position     int64   `json:"position"`
	Bytes        int64   `json:"bytes"`
	StoredAt     int64   `json:"storedPosition"`
	StoredBytes  int64   `json:"storedBytes"`
	StoredCRC32C *uint32 `json:"storedCrc32c"`
}

func chunkOf(m *manifest.Manifest, i int) chunkJSON {
	c := m.Chunks.Chunk(i)
	j := chunkJSON{Chunk: i, Position: c.Start, Bytes: c.Size, StoredAt: c.StoredStart, StoredBytes: c.StoredSize}
	if m.Checksums != nil {
		sum := m.Checksums.Chunk(i)
		j.StoredCRC32C = &sum
	}
	return j
}

func (a *app) inspectJSON(raw []byte, m *manifest.Manifest) error {
	root, err := parseObject(raw)
	if err != nil {
		return err
	}
	if enc, ok := root.get("encryption"); ok && m.Encryption != nil {
		if root.value[enc], err = hideDataKey(root.value[enc], m); err != nil {
			return err
		}
	}
	f, err := json.Marshal(formatOf(m))
	if err != nil {
		return err
	}
	root.set("format", f)
	return a.printJSON(root)
}

func (a *app) chunksJSON(m *manifest.Manifest) error {
	for i := range m.Chunks.Chunks() {
		if err := a.printJSON(chunkOf(m, i)); err != nil {
			return err
		}
	}
	return nil
}

// hideDataKey leaves only the id of the key that wrapped the data key.
func hideDataKey(raw json.RawMessage, m *manifest.Manifest) (json.RawMessage, error) {
	enc, err := parseObject(raw)
	if err != nil {
		return nil, err
	}
	hidden, err := json.Marshal(keyID(m.Encryption.DataKey) + ":<not shown>")
	if err != nil {
		return nil, err
	}
	enc.set("dataKey", hidden)
	return json.Marshal(enc)
}

// object is a JSON object that keeps the order of its fields. Of a name that comes twice the last value counts, as for the reader.
type object struct {
	name  []string
	value []json.RawMessage
}

func parseObject(raw []byte) (*object, error) {
	dec := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(raw, []byte("\ufeff"))))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, fmt.Errorf("%w: not a JSON object", remotelog.ErrCorrupt)
	}
	o := new(object)
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, err
		}
		name, ok := t.(string)
		if !ok {
			return nil, fmt.Errorf("%w: field name %v is not a string", remotelog.ErrCorrupt, t)
		}
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			return nil, err
		}
		o.set(name, v)
	}
	return o, nil
}

func (o *object) get(name string) (int, bool) {
	for i, n := range o.name {
		if n == name {
			return i, true
		}
	}
	return 0, false
}

func (o *object) set(name string, v json.RawMessage) {
	if i, ok := o.get(name); ok {
		o.value[i] = v
		return
	}
	o.name, o.value = append(o.name, name), append(o.value, v)
}

// MarshalJSON implements json.Marshaler.
func (o *object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, n := range o.name {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(n)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(o.value[i])
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func (a *app) inspectText(m *manifest.Manifest) error {
	f := formatOf(m)
	t := newTable(a.Out)
	if md := m.Metadata; md != nil {
		t.row("segment", fmt.Sprintf("%s of %s (topic id %s)", md.ID, md.TopicIDPartition, md.TopicID))
		t.row("offsets", fmt.Sprintf("%d to %d", md.StartOffset, md.EndOffset))
		t.row("leader epochs", epochsText(md.LeaderEpochs))
		t.row("largest timestamp", timestamp(md.MaxTimestampMs))
		t.row("copied by", fmt.Sprintf("broker %d at %s", md.BrokerID, timestamp(md.EventTimestampMs)))
	} else {
		t.row("segment", "unknown: "+m.MetadataProblem)
	}
	t.row("log", fmt.Sprintf("%s in %s of %s, stored as %s (%s)", size(f.OriginalBytes), count(f.Chunks, "chunk"), size(m.Chunks.ChunkSize()),
		size(m.Chunks.StoredSize()), ratio(f.OriginalBytes, m.Chunks.StoredSize())))
	t.row("compression", f.Compression)
	if f.KeyID != nil {
		t.row("encryption", fmt.Sprintf("%s, data key wrapped by key %q (not shown)", f.Encryption, *f.KeyID))
	} else {
		t.row("encryption", f.Encryption)
	}
	for _, it := range manifest.StoredOrder() {
		if p, ok := m.Indexes.Part(it); ok {
			t.row("index "+it.String(), fmt.Sprintf("%d bytes at %d", p.Size, p.Position))
		} else {
			t.row("index "+it.String(), "none")
		}
	}
	if m.Checksums != nil {
		t.row("checksums", "CRC-32C of every chunk and index")
	} else {
		t.row("checksums", "none: written by another program, only the format itself can be checked")
	}
	return t.flush()
}

func (a *app) chunksText(m *manifest.Manifest) error {
	t := newTable(a.Out, "", "CHUNK", "POSITION", "BYTES", "STORED AT", "STORED BYTES", "CRC-32C")
	for i := range m.Chunks.Chunks() {
		c := chunkOf(m, i)
		sum := "-"
		if c.StoredCRC32C != nil {
			sum = fmt.Sprintf("%08x", *c.StoredCRC32C)
		}
		t.row("", strconv.Itoa(i), strconv.FormatInt(c.Position, 10), strconv.FormatInt(c.Bytes, 10),
			strconv.FormatInt(c.StoredAt, 10), strconv.FormatInt(c.StoredBytes, 10), sum)
	}
	return t.flush()
}

func epochsText(es []remotelog.LeaderEpoch) string {
	parts := make([]string, len(es))
	for i, e := range es {
		parts[i] = fmt.Sprintf("%d from %d", e.Epoch, e.StartOffset)
	}
	return strings.Join(parts, ", ")
}

// ratio says how many times smaller stored is than original.
func ratio(original, stored int64) string {
	if stored <= 0 {
		return "empty"
	}
	return fmt.Sprintf("%.2f : 1", float64(original)/float64(stored))
}
