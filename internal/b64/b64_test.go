package b64

import "testing"

func TestDecode_AsJavaDoes(t *testing.T) {
	for in, want := range map[string]string{"": "", "YQ==": "a", "YQ": "a", "YWI=": "ab", "YWI": "ab", "YWJj": "abc", "+/+/": "\xfb\xff\xbf"} {
		if got, err := Decode(in); err != nil || string(got) != want {
			t.Errorf("Decode(%q) = %q, %v, want %q", in, got, err, want)
		}
	}
	for _, bad := range []string{"Y", "YQ=", "YWJj\n", "YW\r\nJj", "-_-_", "YQ==YQ==", " YQ==", "===="} {
		if got, err := Decode(bad); err == nil {
			t.Errorf("Decode(%q) = %q, want an error", bad, got)
		}
	}
	if got := Encode([]byte("a")); got != "YQ==" {
		t.Errorf("Encode = %q", got)
	}
}
