package manifest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/tierkit/tierkit/remotelog"
)

// metadata reads remoteLogSegmentMetadata. Aiven's reader skips it whatever it is, so that nothing in it makes the manifest
// unreadable, but for JSON that is none, and a damaged extension of ours.
func (p *parser) metadata(path string) error {
	p.m.Metadata, p.m.MetadataProblem, p.m.Checksums = nil, "", nil
	t, err := p.next()
	if err != nil {
		return corrupt(path, "%w", err)
	}
	if t.kind != tokObject {
		p.m.MetadataProblem = fmt.Sprintf("%s is %v, not an object", path, t)
		if err := p.finish(t); err != nil {
			return corrupt(path, "%w", err)
		}
		return nil
	}
	d := &metaReader{scanner: &p.scanner}
	if err := p.fields(d.field); err != nil {
		return corrupt(path, "%w", err)
	}
	p.m.Checksums = d.checksums
	p.m.Metadata, p.m.MetadataProblem = d.result()
	return nil
}

// metaReader collects what it knows and skips the rest.
type metaReader struct {
	*scanner
	md        Metadata
	had       seen
	problem   string // the first field that is not as it is written
	checksums *Checksums
}

var metaFields = [...]string{"remoteLogSegmentId", "startOffset", "endOffset", "maxTimestampMs", "brokerId", "eventTimestampMs", "segmentLeaderEpochs"}

func (d *metaReader) bad(name string, t token) {
	if d.problem == "" {
		d.problem = fmt.Sprintf("remoteLogSegmentMetadata.%.60q is %v", name, t)
	}
}

func (d *metaReader) field(name string) error {
	if i := index(metaFields[:], name); i >= 0 {
		d.had |= 1 << i
	}
	switch name {
	case "remoteLogSegmentId":
		return d.id()
	case "startOffset":
		return d.int(name, math.MaxInt64, func(v int64) { d.md.StartOffset = v })
	case "endOffset":
		return d.int(name, math.MaxInt64, func(v int64) { d.md.EndOffset = v })
	case "maxTimestampMs":
		return d.int(name, math.MaxInt64, func(v int64) { d.md.MaxTimestampMs = v })
	case "eventTimestampMs":
		return d.int(name, math.MaxInt64, func(v int64) { d.md.EventTimestampMs = v })
	case "brokerId":
		return d.int(name, math.MaxInt32, func(v int64) { d.md.BrokerID = int32(v) })
	case "segmentLeaderEpochs":
		return d.epochs(name)
	case "txnIdxEmpty":
		return d.txnIndexEmpty(name)
	case "tierkit":
		return d.extension()
	default:
		return d.skip()
	}
}

// int reads an integer of at most limit in size.
func (d *metaReader) int(name string, limit int64, set func(int64)) error {
	t, err := d.next()
	if err != nil {
		return err
	}
	v, perr := strconv.ParseInt(t.text, 10, 64)
	if t.kind != tokInt || perr != nil || v > limit || v < -limit-1 {
		d.bad(name, t)
		return d.finish(t)
	}
	set(v)
	return nil
}

func (d *metaReader) text(name string, set func(string) error) error {
	t, err := d.next()
	if err != nil {
		return err
	}
	if t.kind != tokString || set(t.text) != nil {
		d.bad(name, t)
		return d.finish(t)
	}
	return nil
}

// nested reads an object and calls f for its fields; anything else is noted and skipped.
func (d *metaReader) nested(name string, f func(string) error) error {
	t, err := d.next()
	if err != nil {
		return err
	}
	if t.kind != tokObject {
		d.bad(name, t)
		return d.finish(t)
	}
	return d.fields(f)
}

func (d *metaReader) id() error {
	d.md.SegmentID = remotelog.SegmentID{}
	var had [4]bool
	topicPartition := func(name string) error {
		switch name {
		case "topic":
			had[0] = true
			return d.text(name, func(s string) error { d.md.Topic = s; return nil })
		case "partition":
			had[1] = true
			return d.int(name, math.MaxInt32, func(v int64) { d.md.Partition = int32(v) })
		}
		return d.skip()
	}
	topicID := func(name string) error {
		switch name {
		case "topicId":
			had[2] = true
			return d.text(name, func(s string) error { return d.md.TopicID.UnmarshalText([]byte(s)) })
		case "topicPartition":
			return d.nested(name, topicPartition)
		}
		return d.skip()
	}
	err := d.nested("remoteLogSegmentId", func(name string) error {
		switch name {
		case "id":
			had[3] = true
			return d.text(name, func(s string) error { return d.md.ID.UnmarshalText([]byte(s)) })
		case "topicIdPartition":
			return d.nested(name, topicID)
		}
		return d.skip()
	})
	if err == nil && had != [4]bool{true, true, true, true} && d.problem == "" {
		d.problem = "remoteLogSegmentMetadata.remoteLogSegmentId does not have all of topic, partition, topicId and id"
	}
	return err
}

func (d *metaReader) epochs(name string) error {
	d.md.LeaderEpochs = nil
	err := d.nested(name, func(epoch string) error {
		n, err := strconv.ParseInt(epoch, 10, 32)
		if err != nil {
			d.bad(name+"."+epoch, token{text: epoch})
			return d.skip()
		}
		return d.int(name+"."+epoch, math.MaxInt64, func(v int64) {
			d.md.LeaderEpochs = append(d.md.LeaderEpochs, remotelog.LeaderEpoch{Epoch: int32(n), StartOffset: v})
		})
	})
	byEpoch := func(a, b remotelog.LeaderEpoch) int { return cmp.Compare(a.Epoch, b.Epoch) }
	slices.Reverse(d.md.LeaderEpochs) // the last of equal ones comes first and is kept
	slices.SortStableFunc(d.md.LeaderEpochs, byEpoch)
	d.md.LeaderEpochs = slices.CompactFunc(d.md.LeaderEpochs, func(a, b remotelog.LeaderEpoch) bool { return a.Epoch == b.Epoch })
	return err
}

func (d *metaReader) txnIndexEmpty(name string) error {
	t, err := d.next()
	if err != nil {
		return err
	}
	if t.kind != tokBool {
		d.bad(name, t)
		return d.finish(t)
	}
	empty := t.text == "true"
	d.md.TxnIndexEmpty = &empty
	return nil
}

// result returns the metadata if the manifest had all of them. Whether they make sense is for those to judge who use them: a
// broker hands over leader epochs that begin behind the segment's end, for instance.
func (d *metaReader) result() (*Metadata, string) {
	for i, name := range metaFields {
		if d.had&(1<<i) == 0 && d.problem == "" {
			d.problem = "remoteLogSegmentMetadata." + name + " is missing"
		}
	}
	if d.problem != "" {
		return nil, d.problem
	}
	return &d.md, ""
}
