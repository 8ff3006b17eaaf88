package rsm

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/crypto"
	"github.com/tierkit/tierkit/manifest"
	"github.com/tierkit/tierkit/remotelog"
)

// ErrLeftBehind is in the error of a copy that failed and could not remove what it had stored.
var ErrLeftBehind = errors.New("what was stored could not be removed, delete the segment again")

// CleanUp removes what a copy left that did not come to its end, because the process was killed say: objects and unfinished uploads. A
// segment whose manifest is there is whole and is left alone. It is for segments that nobody knows as finished; whoever wants a
// segment gone calls Delete.
func (m *Manager) CleanUp(ctx context.Context, md remotelog.SegmentMetadata) (err error) {
	inner, done, err := m.enter(ctx)
	if err != nil {
		return err
	}
	defer done()
	defer func() {
		if err = m.ended(ctx, err); err != nil {
			err = fmt.Errorf("clean up segment %s: %w", md.SegmentID, err)
		}
	}()
	unlock, err := m.locks.lock(inner, md.ID)
	if err != nil {
		return err
	}
	defer unlock()
	s := m.configuredStems(&md)
	_, err = m.store.Stat(inner, s.configured.key(manifest.ManifestSuffix))
	if err == nil {
		return nil
	}
	if !errors.Is(err, backends.NotFound) {
		return err
	}
	if err := m.abortUploads(inner, s.configured); err != nil {
		return err
	}
	return m.remove(inner, s, "")
}

// abortUploads ends the uploads of a segment's objects that nobody goes on with. Where the store cannot tell there is nothing to do.
func (m *Manager) abortUploads(ctx context.Context, s stem) error {
	ups, err := m.store.Uploads(ctx, string(s)+".")
	if errors.Is(err, backends.Unsupported) {
		return nil
	}
	for _, u := range ups {
		if u.Key == "" {
			continue // whose it is cannot be told
		}
		err = errors.Join(err, m.store.AbortUpload(ctx, u))
	}
	return err
}

// CustomBytes returns how many bytes of custom metadata a broker has to keep for each segment of a topic with such a name, at most; 0 for
// none.
func (c *Config) CustomBytes(topic string) (int, error) {
	var out manifest.Custom
	for _, name := range c.CustomFields {
		f, err := manifest.ParseCustomField(name)
		if err != nil {
			return 0, err
		}
		out.Has[f] = true
	}
	if len(c.CustomFields) == 0 {
		return 0, nil
	}
	const sixDigits, large = 999_999, 1 << 40 // more partitions, and larger segments, than there are
	id := remotelog.SegmentID{TopicIDPartition: remotelog.TopicIDPartition{Topic: topic, Partition: sixDigits}}
	out.RemoteSize, out.ObjectPrefix = large, c.KeyPrefix
	out.ObjectKey = manifest.MainPath(id, 0, manifest.ASCIIDigits)
	return len(out.Append(nil)), nil
}

// CheckKeys finds out whether the key pairs belong together: a data key is wrapped and unwrapped again. Without encryption there is
// nothing to check.
func (m *Manager) CheckKeys(ctx context.Context) error {
	if !m.config.Encryption {
		return nil
	}
	key := crypto.NewKey()
	text, err := m.keys.Wrap(ctx, key)
	if err != nil {
		return err
	}
	back, err := m.keys.Unwrap(ctx, text)
	if err == nil && !bytes.Equal(back.Bytes(), key.Bytes()) {
		err = fmt.Errorf("%w: a wrapped data key came back as another", crypto.ErrWrongKey)
	}
	return err
}
