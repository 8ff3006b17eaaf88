package manifest

import (
	"fmt"
	"strconv"

	"github.com/tierkit/tierkit/chunking"
	"github.com/tierkit/tierkit/internal/b64"
)

// Marshal returns the manifest as the plug-in's Jackson writes it: compact, fields in a fixed order, encryption left out when
// there is none, transaction null when there is none, remoteLogSegmentMetadata last and in it, last, the extension. It refuses,
// as Parse does, what contradicts itself.
func (m *Manifest) Marshal() ([]byte, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	w := &writer{}
	w.raw(`{"version":"` + version + `","chunkIndex":`)
	if err := writeChunks(w, m.Chunks); err != nil {
		return nil, err
	}
	w.raw(`,"segmentIndexes":{`)
	for i, t := range StoredOrder() {
		if i > 0 {
			w.raw(",")
		}
		w.string(fieldName(t)).raw(":")
		if p := m.Indexes.part(t); p == nil {
			w.raw("null")
		} else {
			w.raw(`{"position":`).int(p.Position).raw(`,"size":`).int(p.Size).raw("}")
		}
	}
	w.raw(`},"compression":` + strconv.FormatBool(m.Compression))
	if e := m.Encryption; e != nil {
		w.raw(`,"encryption":{"dataKey":`).string(e.DataKey).raw(`,"aad":"`).raw(b64.Encode(e.AAD)).raw(`"}`)
	}
	w.raw(`,"remoteLogSegmentMetadata":`)
	m.writeMetadata(w)
	w.raw("}")
	if len(w.b) > MaxBytes {
		return nil, fmt.Errorf("manifest has %d bytes, at most %d are allowed: raise chunk.size", len(w.b), MaxBytes)
	}
	return w.b, nil
}

func writeChunks(w *writer, x *chunking.Index) error {
	w.raw(`{"type":"` + x.Kind().String() + `","originalChunkSize":`).int(x.ChunkSize()).raw(`,"originalFileSize":`).int(x.FileSize())
	if x.Kind() == chunking.Fixed {
		stored, last := x.FixedSizes()
		w.raw(`,"transformedChunkSize":`).int(stored).raw(`,"finalTransformedChunkSize":`).int(last).raw("}")
		return nil
	}
	text, err := x.SizesText()
	if err != nil {
		return err
	}
	w.raw(`,"transformedChunks":"`).raw(text).raw(`"}`)
	return nil
}

func (m *Manifest) writeMetadata(w *writer) {
	md := m.Metadata
	if md == nil {
		if m.Checksums == nil {
			w.raw("null")
			return
		}
		w.raw(`{"tierkit":`)
		m.Checksums.append(w)
		w.raw("}")
		return
	}
	w.raw(`{"remoteLogSegmentId":{"topicIdPartition":{"topicId":"` + md.TopicID.String() + `","topicPartition":{"topic":`).string(md.Topic)
	w.raw(`,"partition":`).int(int64(md.Partition)).raw(`}},"id":"` + md.ID.String() + `"},"startOffset":`).int(md.StartOffset)
	w.raw(`,"endOffset":`).int(md.EndOffset).raw(`,"maxTimestampMs":`).int(md.MaxTimestampMs)
	w.raw(`,"brokerId":`).int(int64(md.BrokerID)).raw(`,"eventTimestampMs":`).int(md.EventTimestampMs)
	w.raw(`,"segmentLeaderEpochs":{`)
	for i, e := range md.LeaderEpochs {
		if i > 0 {
			w.raw(",")
		}
		w.raw(`"`).int(int64(e.Epoch)).raw(`":`).int(e.StartOffset)
	}
	w.raw("}")
	if md.TxnIndexEmpty != nil {
		w.raw(`,"txnIdxEmpty":` + strconv.FormatBool(*md.TxnIndexEmpty))
	}
	if m.Checksums != nil {
		w.raw(`,"tierkit":`)
		m.Checksums.append(w)
	}
	w.raw("}")
}

// writer appends JSON as Jackson's generator does. encoding/json escapes <, > and & besides, which Jackson does not.
type writer struct{ b []byte }

func (w *writer) raw(s string) *writer {
	w.b = append(w.b, s...)
	return w
}

func (w *writer) int(v int64) *writer {
	w.b = strconv.AppendInt(w.b, v, 10)
	return w
}

func (w *writer) string(s string) *writer {
	w.b = append(w.b, '"')
	for i := range len(s) {
		switch c := s[i]; c {
		case '"', '\\':
			w.b = append(w.b, '\\', c)
		case '\b':
			w.b = append(w.b, `\b`...)
		case '\t':
			w.b = append(w.b, `\t`...)
		case '\n':
			w.b = append(w.b, `\n`...)
		case '\f':
			w.b = append(w.b, `\f`...)
		case '\r':
			w.b = append(w.b, `\r`...)
		default:
			if c < 0x20 {
				w.b = fmt.Appendf(w.b, `\u%04X`, c)
				continue
			}
			w.b = append(w.b, c)
		}
	}
	w.b = append(w.b, '"')
	return w
}
