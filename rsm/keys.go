package rsm

import (
	"context"
	"slices"
	"strings"

	"github.com/tierkit/tierkit/manifest"
	"github.com/tierkit/tierkit/remotelog"
)

// stem is the key of a segment's objects without the suffix.
type stem string

func (s stem) key(suffix manifest.Suffix) string { return string(s) + "." + string(suffix) }

// isOf says whether the objects at the stem are those of the segment with this id.
func (s stem) isOf(id remotelog.UUID) bool { return strings.HasSuffix(string(s), "-"+id.String()) }

// stems are the keys under which a segment's objects may be.
type stems struct {
	configured stem   // where Copy puts them
	custom     stem   // what custom metadata say; "" if they say nothing
	digits     []stem // configured, with the digits of other locales
}

// configuredStems has what needs no custom metadata.
func (m *Manager) configuredStems(md *remotelog.SegmentMetadata) stems {
	of := func(d manifest.Digits) stem {
		return stem(m.config.KeyPrefix + manifest.MainPath(md.SegmentID, md.StartOffset, d))
	}
	s := stems{configured: of(manifest.ASCIIDigits)}
	for _, d := range manifest.AllDigits() {
		if d != manifest.ASCIIDigits {
			s.digits = append(s.digits, of(d))
		}
	}
	return s
}

// segmentStems looks at custom metadata too. Those that do not decode are another RemoteStorageManager's and are ignored with a
// notice; an OBJECT_KEY of another segment is ErrCorrupt, and the stems returned are the configured ones.
func (m *Manager) segmentStems(ctx context.Context, md *remotelog.SegmentMetadata) (stems, error) {
	s := m.configuredStems(md)
	c, err := manifest.ParseCustom(md.CustomMetadata)
	if err != nil {
		m.log.WarnContext(ctx, "custom metadata ignored: they are not of this storage manager", "segment", md.String(), "error", err)
		return s, nil
	}
	if err := c.CheckOwner(md.ID); err != nil {
		return s, err
	}
	if !c.Has[manifest.ObjectPrefix] && !c.Has[manifest.ObjectKey] {
		return s, nil
	}
	prefix, path := m.config.KeyPrefix, manifest.MainPath(md.SegmentID, md.StartOffset, manifest.ASCIIDigits)
	if c.Has[manifest.ObjectPrefix] {
		prefix = c.ObjectPrefix
	}
	if c.Has[manifest.ObjectKey] {
		path = c.ObjectKey
	}
	if custom := stem(prefix + path); custom != s.configured {
		s.custom = custom
	}
	return s, nil
}

// ofManifest is where to look for the manifest, in order.
func (s stems) ofManifest() []stem {
	return distinct(append([]stem{s.configured, s.custom}, s.digits...)...)
}

// ofData is where to look for .log and .indexes, in order, when the manifest was found at found.
func (s stems) ofData(found stem) []stem {
	return distinct(append([]stem{s.custom, found, s.configured}, s.digits...)...)
}

// distinct drops empty and repeated stems.
func distinct(in ...stem) (out []stem) {
	for _, s := range in {
		if s != "" && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
