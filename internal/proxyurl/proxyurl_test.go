package proxyurl

import (
	"strings"
	"testing"

	"github.com/tierkit/tierkit/internal/settings"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		props map[string]string
		want  string // "": none
		wrong string // the key that the error names
	}{
		{nil, "", ""},
		{map[string]string{keyHost: "h", keyPort: "1080"}, "socks5://h:1080", ""},
		{map[string]string{keyHost: "::1", keyPort: "1080", keyUser: "u", keyPassword: "p:/@"}, "socks5://u:p%3A%2F%40@[::1]:1080", ""},
		{map[string]string{keyURL: "http://u:p@h:3128"}, "http://u:p@h:3128", ""},
		{map[string]string{keyURL: "socks5h://h:1"}, "socks5h://h:1", ""},
		{map[string]string{keyURL: "ftp://h:1"}, "", keyURL},
		{map[string]string{keyURL: "h:1"}, "", keyURL},
	} {
		v, err := settings.Parse(Settings(), tt.props, settings.Options{})
		if err != nil {
			t.Fatal(err)
		}
		u, err := Parse(v)
		switch {
		case tt.wrong != "":
			if err == nil || !strings.Contains(err.Error(), tt.wrong) || strings.Contains(err.Error(), "h:1") {
				t.Errorf("%v: got %v", tt.props, err)
			}
		case err != nil || u == nil && tt.want != "" || u != nil && u.String() != tt.want:
			t.Errorf("%v: got %v, %v", tt.props, u, err)
		}
		if unread := v.Unread(); len(unread) > 0 {
			t.Errorf("not read: %q", unread)
		}
	}
	for _, props := range []map[string]string{
		{keyHost: "h"}, {keyPort: "1"}, {keyUser: "u", keyPassword: "p"}, {keyHost: "h", keyPort: "1", keyUser: "u"}, {keyURL: "http://h:1", keyHost: "h", keyPort: "1"},
	} {
		if _, err := settings.Parse(Settings(), props, settings.Options{}); err == nil {
			t.Errorf("%v: accepted", props)
		}
	}
}
