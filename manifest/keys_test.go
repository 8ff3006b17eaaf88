package manifest_test

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tierkit/tierkit/manifest"
	"github.com/tierkit/tierkit/remotelog"
)

func TestKey_Example(t *testing.T) {
	const want = "pre/orders-AAECAwQFBgcICQoLDA0ODw/3/00000000000000001234-_-7dzLuqmYh3ZlVEMyIRAA.rsm-manifest"
	if got := manifest.Key("pre/", manifest.MainPath(md.SegmentID, md.StartOffset, manifest.ASCIIDigits), manifest.ManifestSuffix); got != want {
		t.Errorf("key is %q, want %q", got, want)
	}
	if got := "pre/" + manifest.PartitionPath(md.TopicIDPartition); !strings.HasPrefix(want, got) {
		t.Errorf("%q does not begin with %q", want, got)
	}
}

func TestKey_ParsesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want manifest.KeyInfo
		copy(want.TopicID[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "topic id"))
		copy(want.ID[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		want.Topic = rapid.StringMatching(`[a-zA-Z0-9_-][a-zA-Z0-9._-]{0,248}`).Draw(t, "topic")
		want.Partition = rapid.Int32Range(0, math.MaxInt32).Draw(t, "partition")
		want.StartOffset = rapid.Int64Range(0, math.MaxInt64).Draw(t, "offset")
		want.Digits = rapid.SampledFrom(manifest.AllDigits()).Draw(t, "digits")
		want.Suffix = rapid.SampledFrom([]manifest.Suffix{manifest.LogSuffix, manifest.IndexesSuffix, manifest.ManifestSuffix}).Draw(t, "suffix")
		prefix := rapid.SampledFrom([]string{"", "p/", "glued", "a/b/c/", "orders-AAECAwQFBgcICQoLDA0ODw/3/", "\u00fc/"}).Draw(t, "prefix")
		key := manifest.Key(prefix, manifest.MainPath(want.SegmentID, want.StartOffset, want.Digits), want.Suffix)
		got, err := manifest.ParseKey(prefix, key)
		if err != nil || got != want {
			t.Fatalf("%q reads as %+v, %v, want %+v", key, got, err, want)
		}
	})
}

func TestParseKey_RefusesOtherObjects(t *testing.T) {
	const good = "orders-AAECAwQFBgcICQoLDA0ODw/3/00000000000000001234-_-7dzLuqmYh3ZlVEMyIRAA.log"
	if _, err := manifest.ParseKey("", good); err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string]string{
		"empty":                  "",
		"another prefix":         "x/" + good,
		"another suffix":         strings.TrimSuffix(good, "log") + "txt",
		"no suffix":              strings.TrimSuffix(good, ".log"),
		"temporary":              good + ".tmp",
		"deeper":                 good[:35] + "/" + good[35:],
		"partition padded":       strings.Replace(good, "/3/", "/03/", 1),
		"partition negative":     strings.Replace(good, "/3/", "/-3/", 1),
		"partition plus":         strings.Replace(good, "/3/", "/+3/", 1),
		"partition above int":    strings.Replace(good, "/3/", "/2147483648/", 1),
		"no topic":               good[6:],
		"topic with a space":     strings.Replace(good, "orders", "or ders", 1),
		"topic is dots":          strings.Replace(good, "orders", "..", 1),
		"topic too long":         strings.Repeat("t", 244) + good,
		"topic id cut":           strings.Replace(good, "ODw/", "OD/", 1),
		"topic id not base64":    strings.Replace(good, "AAEC", "A+EC", 1),
		"no dash":                strings.Replace(good, "orders-", "orders_", 1),
		"19 digits":              strings.Replace(good, "/0", "/", 1),
		"21 digits":              strings.Replace(good, "/0", "/00", 1),
		"sign among the digits":  strings.Replace(good, "/0", "/-", 1),
		"offset above 2^63-1":    strings.Replace(good, "00000000000000001234", "09223372036854775808", 1),
		"digits of two scripts":  strings.Replace(good, "00000000000000001234", "0000000000000000123\u0664", 1),
		"digits of third script": strings.Replace(good, "00000000000000001234", strings.Repeat("\u0966", 20), 1),
		"segment id cut":         strings.Replace(good, "RAA.", "RA.", 1),
		"segment id, spare bits": strings.Replace(good, "RAA.", "RAB.", 1),
	} {
		if got, err := manifest.ParseKey("", key); !isCorrupt(err) || got != (manifest.KeyInfo{}) {
			t.Errorf("%s: %q reads as %+v, %v, want ErrCorrupt", name, key, got, err)
		}
	}
}

func TestCustom_WorkedExample(t *testing.T) {
	c := manifest.Custom{Has: [3]bool{true, true, true}, RemoteSize: 1150, ObjectPrefix: "pre/", ObjectKey: manifest.MainPath(md.SegmentID, 1234, manifest.ASCIIDigits)}
	got := c.Append(nil)
	if want := "\x03\x00\x02\xfc\x11\x01\x05\x05pre/\x02\x4c\x4c"; !strings.HasPrefix(string(got), want) || len(got) != len(want)+75 {
		t.Errorf("encoded %x (%d bytes)", got, len(got))
	}
	only := manifest.Custom{Has: [3]bool{true}, RemoteSize: 1150}
	if got := only.Append(nil); string(got) != "\x01\x00\x02\xfc\x11" {
		t.Errorf("encoded %x", got)
	}
	if got := (&manifest.Custom{}).Append(nil); string(got) != "\x00" {
		t.Errorf("no fields encoded as %x", got)
	}
}

func TestCustom_ComesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want manifest.Custom
		for i := range want.Has {
			want.Has[i] = rapid.Bool().Draw(t, "has")
		}
		if want.Has[manifest.RemoteSize] {
			want.RemoteSize = rapid.Int64Range(0, math.MaxInt64).Draw(t, "size")
		}
		if want.Has[manifest.ObjectPrefix] {
			want.ObjectPrefix = rapid.StringN(0, -1, 300).Draw(t, "prefix")
		}
		if want.Has[manifest.ObjectKey] {
			want.ObjectKey = rapid.StringN(0, -1, 300).Draw(t, "key")
		}
		b := want.Append(nil)
		if got, err := manifest.ParseCustom(append(b, 1, 2, 3)); err != nil || got != want {
			t.Fatalf("%x reads as %+v, %v, want %+v", b, got, err, want)
		}
		for n := 1; n < len(b); n++ {
			if got, err := manifest.ParseCustom(b[:n]); !isCorrupt(err) {
				t.Fatalf("%x cut to %d reads as %+v, %v, want ErrCorrupt", b, n, got, err)
			}
		}
	})
}

func TestParseCustom_Tolerances(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		want manifest.Custom
		ok   bool
	}{
		"nothing":                    {"", manifest.Custom{}, true},
		"no fields":                  {"\x00", manifest.Custom{}, true},
		"unknown tag":                {"\x02\x00\x02\xfc\x11\x09\x03abc", manifest.Custom{Has: [3]bool{true}, RemoteSize: 1150}, true},
		"another manager's text":     {"cm:0", manifest.Custom{}, false},
		"tag twice":                  {"\x02\x00\x02\xfc\x11\x00\x02\xfc\x11", manifest.Custom{}, false},
		"tags descending":            {"\x02\x01\x02\x02a\x00\x02\xfc\x11", manifest.Custom{}, false},
		"size beyond the end":        {"\x01\x01\x7f\x02a", manifest.Custom{}, false},
		"size of 5 bytes above int":  {"\x01\x09\xff\xff\xff\xff\x0f", manifest.Custom{}, false},
		"count of 6 bytes":           {"\x80\x80\x80\x80\x80\x00", manifest.Custom{}, false},
		"string null":                {"\x01\x01\x01\x00", manifest.Custom{}, false},
		"string empty":               {"\x01\x01\x01\x01", manifest.Custom{Has: [3]bool{false, true}}, true},
		"string shorter than field":  {"\x01\x01\x03\x02ab", manifest.Custom{}, false},
		"string not UTF-8":           {"\x01\x01\x02\x02\xff", manifest.Custom{}, false},
		"number shorter than field":  {"\x01\x00\x03\xfc\x11\x00", manifest.Custom{}, false},
		"number negative":            {"\x01\x00\x01\x01", manifest.Custom{}, false},
		"number without end":         {"\x01\x00\x01\xff", manifest.Custom{}, false},
		"more fields than there are": {"\xff\xff\xff\xff\x07\x00\x02\xfc\x11", manifest.Custom{}, false},
	} {
		got, err := manifest.ParseCustom([]byte(c.in))
		if got != c.want || (err == nil) != c.ok || err != nil && !isCorrupt(err) {
			t.Errorf("%s: %+v, %v, want %+v, ok %t", name, got, err, c.want, c.ok)
		}
	}
	for f, name := range map[manifest.CustomField]string{manifest.RemoteSize: "REMOTE_SIZE", manifest.ObjectPrefix: "OBJECT_PREFIX", manifest.ObjectKey: "OBJECT_KEY"} {
		if got, err := manifest.ParseCustomField(name); err != nil || got != f || f.String() != name {
			t.Errorf("%q reads as %v, %v", name, got, err)
		}
	}
	if _, err := manifest.ParseCustomField("OBJECT"); err == nil {
		t.Error("an unknown name is accepted")
	}
}

func TestCustom_OwnerIsTheSegmentItself(t *testing.T) {
	other := remotelog.UUID{1}
	for key, ok := range map[string]bool{
		"x-" + segmentID.String():               true,
		manifest.MainPath(md.SegmentID, 1, '0'): true,
		segmentID.String():                      false,
		"x-" + other.String():                   false,
		"":                                      false,
		"x-" + segmentID.String() + "/y":        false,
		manifest.MainPath(md.SegmentID, 1, '0') + ".log": false,
	} {
		c := manifest.Custom{Has: [3]bool{2: true}, ObjectKey: key}
		if err := c.CheckOwner(segmentID); (err == nil) != ok || err != nil && !isCorrupt(err) {
			t.Errorf("%q: %v, want ok %t", key, err, ok)
		}
	}
	if err := (&manifest.Custom{}).CheckOwner(segmentID); err != nil {
		t.Errorf("no OBJECT_KEY: %v", err)
	}
}

func FuzzParseKey(f *testing.F) {
	f.Add("pre/", "pre/orders-AAECAwQFBgcICQoLDA0ODw/3/00000000000000001234-_-7dzLuqmYh3ZlVEMyIRAA.rsm-manifest")
	f.Fuzz(func(t *testing.T, prefix, key string) {
		k, err := manifest.ParseKey(prefix, key)
		if err != nil {
			if !isCorrupt(err) {
				t.Fatalf("%v is not ErrCorrupt", err)
			}
			return
		}
		if got := manifest.Key(prefix, manifest.MainPath(k.SegmentID, k.StartOffset, k.Digits), k.Suffix); got != key {
			t.Fatalf("%q is written back as %q", key, got)
		}
	})
}

func FuzzParseCustom(f *testing.F) {
	f.Add([]byte("\x03\x00\x02\xfc\x11\x01\x05\x05pre/\x02\x02\x02a"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := manifest.ParseCustom(b)
		if err != nil {
			if !isCorrupt(err) {
				t.Fatalf("%v is not ErrCorrupt", err)
			}
			return
		}
		if again, err := manifest.ParseCustom(c.Append(nil)); err != nil || again != c {
			t.Fatalf("%+v is written back as %+v, %v", c, again, err)
		}
	})
}
