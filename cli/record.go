package cli

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlm"
)

// appendRecordJSON appends the JSON shape of read. Scripts rely on the names. A key, value or header value that is not valid UTF-8
// stands as keyBase64 or valueBase64 instead; null is null, an empty value "".
func appendRecordJSON(dst []byte, tp remotelog.TopicIDPartition, r *rlm.Record) ([]byte, error) {
	topic, err := json.Marshal(tp.Topic)
	if err != nil {
		return dst, err
	}
	dst = append(append(dst, `{"topic":`...), topic...)
	dst = strconv.AppendInt(append(dst, `,"partition":`...), int64(tp.Partition), 10)
	dst = strconv.AppendInt(append(dst, `,"offset":`...), r.Offset, 10)
	dst = strconv.AppendInt(append(dst, `,"timestamp":`...), r.TimestampMs, 10)
	dst = append(append(append(dst, `,"timestampType":"`...), timestampType(r)...), '"')
	dst = strconv.AppendInt(append(dst, `,"leaderEpoch":`...), int64(r.LeaderEpoch), 10)
	dst = strconv.AppendInt(append(dst, `,"producerId":`...), r.ProducerID, 10)
	dst = strconv.AppendBool(append(dst, `,"transactional":`...), r.Transactional)
	dst = appendBytesJSON(append(dst, ','), "key", r.Key)
	dst = appendBytesJSON(append(dst, ','), "value", r.Value)
	dst = append(dst, `,"headers":[`...)
	for i, h := range r.Headers {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendBytesJSON(append(dst, '{'), "key", h.Key)
		dst = append(appendBytesJSON(append(dst, ','), "value", h.Value), '}')
	}
	return append(dst, `]}`...), nil
}

// appendBytesJSON appends "name":"text", "name":null or "nameBase64":"...".
func appendBytesJSON(dst []byte, name string, b []byte) []byte {
	dst = append(append(dst, '"'), name...)
	switch {
	case b == nil:
		return append(dst, `":null`...)
	case utf8.Valid(b):
		return appendStringJSON(append(dst, `":`...), b)
	}
	dst = append(dst, `Base64":"`...)
	return append(base64.StdEncoding.AppendEncode(dst, b), '"')
}

// appendStringJSON quotes valid UTF-8 as JSON; only what must be escaped is.
func appendStringJSON(dst, b []byte) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for _, c := range b {
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, `\n`...)
		case c == '\r':
			dst = append(dst, `\r`...)
		case c == '\t':
			dst = append(dst, `\t`...)
		case c < 0x20 || c == 0x7f:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}

func timestampType(r *rlm.Record) string {
	if r.LogAppendTime {
		return "LogAppendTime"
	}
	return "CreateTime"
}

// maxText bounds how much of a key or value the text format shows.
const maxText = 200

// appendRecordText appends a record for people, on one line.
func appendRecordText(dst []byte, r *rlm.Record) []byte {
	dst = strconv.AppendInt(dst, r.Offset, 10)
	dst = append(append(dst, "  "...), timestamp(r.TimestampMs)...)
	dst = strconv.AppendInt(append(dst, "  epoch "...), int64(r.LeaderEpoch), 10)
	if r.Transactional {
		dst = strconv.AppendInt(append(dst, "  producer "...), r.ProducerID, 10)
	}
	dst = append(dst, "  "...)
	dst = appendShown(dst, r.Key)
	dst = append(dst, " = "...)
	dst = appendShown(dst, r.Value)
	for _, h := range r.Headers {
		dst = appendShown(append(dst, "  "...), h.Key)
		dst = appendShown(append(dst, ": "...), h.Value)
	}
	return dst
}

// appendShown shows bytes: printable text as it is, other text quoted, other bytes in hexadecimal, long ones cut.
func appendShown(dst, b []byte) []byte {
	if b == nil {
		return append(dst, "null"...)
	}
	cut := b
	if len(cut) > maxText {
		cut = cut[:maxText]
	}
	if utf8.Valid(b) {
		for !utf8.Valid(cut) {
			cut = cut[:len(cut)-1] // not in the middle of a character
		}
		dst = appendTextShown(dst, string(cut))
	} else {
		const hex = "0123456789abcdef"
		dst = append(dst, "0x"...)
		for _, c := range cut {
			dst = append(dst, hex[c>>4], hex[c&15])
		}
	}
	if len(cut) < len(b) {
		dst = append(dst, "... ("...)
		dst = append(strconv.AppendInt(dst, int64(len(b)), 10), " bytes)"...)
	}
	return dst
}

// appendTextShown quotes what would not be seen or would move the cursor.
func appendTextShown(dst []byte, s string) []byte {
	plain := s != "" && s != "null" && s[0] != '"' && s[0] != ' ' && s[len(s)-1] != ' '
	for _, r := range s {
		plain = plain && strconv.IsPrint(r)
	}
	if plain {
		return append(dst, s...)
	}
	return strconv.AppendQuote(dst, s)
}
