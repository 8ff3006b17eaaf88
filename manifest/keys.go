package manifest

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tierkit/tierkit/remotelog"
)

// Suffix names one of the three objects of a segment.
type Suffix string

// The suffixes, in the order in which the objects are stored.
const (
	LogSuffix      Suffix = "log"
	IndexesSuffix  Suffix = "indexes"
	ManifestSuffix Suffix = "rsm-manifest"
)

// Digits is the script of the 20 digits in a key. The plug-in formats them in the default locale of its JVM: under Arabic and
// Persian ones they are not ASCII. Keys are always written in ASCII here; readers may have to try the others.
type Digits rune

// The scripts, named by their digit zero.
const (
	ASCIIDigits   Digits = '0'
	ArabicDigits  Digits = 0x0660 // locale ar
	PersianDigits Digits = 0x06f0 // locale fa
)

// AllDigits returns the scripts in the order in which to try them.
func AllDigits() []Digits { return []Digits{ASCIIDigits, ArabicDigits, PersianDigits} }

const (
	uuidLen   = 22  // text of a Kafka id
	offsetLen = 20  // digits of the start offset
	maxTopic  = 249 // Kafka's longest topic name
)

// MainPath is the key of a segment's objects without prefix and suffix:
//
//	TOPIC-TOPIC_ID/PARTITION/OFFSET-SEGMENT_ID
func MainPath(id remotelog.SegmentID, startOffset int64, d Digits) string {
	return fmt.Sprintf("%s-%s/%d/%s-%s", id.Topic, id.TopicID, id.Partition, base20(startOffset, d), id.ID)
}

// Key is the key of one object: prefix and main path are joined as they are, no slash is added.
func Key(prefix, mainPath string, s Suffix) string { return prefix + mainPath + "." + string(s) }

// PartitionPath is what the keys of all segments of a partition begin with, behind the prefix.
func PartitionPath(tp remotelog.TopicIDPartition) string {
	return fmt.Sprintf("%s-%s/%d/", tp.Topic, tp.TopicID, tp.Partition)
}

// OffsetPath is what the keys of the segments of a partition that begin at an offset begin with, behind the prefix. Those that were written in the digits of
// another locale do not.
func OffsetPath(tp remotelog.TopicIDPartition, startOffset int64) string {
	return PartitionPath(tp) + base20(startOffset, ASCIIDigits) + "-"
}

func base20(offset int64, d Digits) string {
	s := fmt.Sprintf("%0*d", offsetLen, offset)
	if d == ASCIIDigits {
		return s
	}
	return strings.Map(func(r rune) rune { return r - '0' + rune(d) }, s)
}

// KeyInfo is what a key says.
type KeyInfo struct {
	remotelog.SegmentID
	StartOffset int64
	Digits      Digits
	Suffix      Suffix
}

// ParseKey reads a key that was made with the prefix. It reads from the right, since ids may contain dashes and topics may look
// like keys. What is not such a key is remotelog.ErrCorrupt: a listing passes over it.
func ParseKey(prefix, key string) (KeyInfo, error) {
	rest, ok := strings.CutPrefix(key, prefix)
	if !ok {
		return KeyInfo{}, badKey(key, "it does not begin with the prefix %.80q", prefix)
	}
	var k KeyInfo
	for _, s := range []Suffix{LogSuffix, IndexesSuffix, ManifestSuffix} {
		if r, ok := strings.CutSuffix(rest, "."+string(s)); ok {
			k.Suffix, rest = s, r
			break
		}
	}
	if k.Suffix == "" {
		return KeyInfo{}, badKey(key, "its suffix is none of log, indexes, rsm-manifest")
	}
	parts := strings.Split(rest, "/")
	if len(parts) != 3 {
		return KeyInfo{}, badKey(key, "behind the prefix it is not TOPIC-ID/PARTITION/OFFSET-ID")
	}
	var err error
	if k.Topic, k.TopicID, err = cutID(parts[0]); err != nil {
		return KeyInfo{}, badKey(key, "topic: %w", err)
	}
	if !legalTopic(k.Topic) {
		return KeyInfo{}, badKey(key, "%.80q is no topic name", k.Topic)
	}
	partition, err := strconv.ParseInt(parts[1], 10, 32)
	if err != nil || strconv.FormatInt(partition, 10) != parts[1] || partition < 0 {
		return KeyInfo{}, badKey(key, "%.20q is no partition", parts[1])
	}
	k.Partition = int32(partition)
	offset, id, err := cutID(parts[2])
	if err != nil {
		return KeyInfo{}, badKey(key, "segment: %w", err)
	}
	k.ID = id
	if k.StartOffset, k.Digits, ok = parseBase20(offset); !ok {
		return KeyInfo{}, badKey(key, "%.80q is no offset of 20 digits", offset)
	}
	return k, nil
}

func badKey(key, format string, args ...any) error {
	return fmt.Errorf("%w: object key %.300q: %w", remotelog.ErrCorrupt, key, fmt.Errorf(format, args...))
}

// cutID splits "NAME-ID".
func cutID(s string) (name string, id remotelog.UUID, err error) {
	i := len(s) - uuidLen - 1
	if i < 0 || s[i] != '-' {
		return "", id, fmt.Errorf("%.80q does not end in a dash and an id of %d characters", s, uuidLen)
	}
	id, err = remotelog.ParseUUID(s[i+1:])
	return s[:i], id, err
}

func legalTopic(s string) bool {
	if s == "" || len(s) > maxTopic || s == "." || s == ".." {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if c != '.' && c != '_' && c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return true
}

func parseBase20(s string) (int64, Digits, bool) {
	if utf8.RuneCountInString(s) != offsetLen {
		return 0, 0, false
	}
	first, _ := utf8.DecodeRuneInString(s)
	for _, d := range AllDigits() {
		if r := rune(d); first < r || first > r+9 {
			continue
		}
		var v int64
		for _, r := range s {
			n := int64(r - rune(d))
			if n < 0 || n > 9 || v > (math.MaxInt64-n)/10 {
				return 0, 0, false
			}
			v = v*10 + n
		}
		return v, d, true
	}
	return 0, 0, false
}
