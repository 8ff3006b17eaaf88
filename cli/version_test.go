package cli_test

import (
	"bytes"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/tierkit/tierkit/cli"
	"github.com/tierkit/tierkit/serve"
)

func versionOf(t *testing.T, b *debug.BuildInfo, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if code := cli.Run(t.Context(), append([]string{"version"}, args...), registry(), cli.Stdio{Out: &out, Err: &errs, Build: b}); code != cli.ExitOK {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	return out.String()
}

func TestVersion_OfTierkitItself(t *testing.T) {
	b := &debug.BuildInfo{
		Path: "github.com/tierkit/tierkit/cmd/tierkit", Main: debug.Module{Path: "github.com/tierkit/tierkit", Version: "v1.2.3"},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2026-01-02T03:04:05Z"}, {Key: "vcs.modified", Value: "true"}},
	}
	text := versionOf(t, b)
	for _, want := range []string{"tierkit           v1.2.3\n", "abc of 2026-01-02T03:04:05Z, with changes\n", "Go                go1.", "plug-in protocol  1\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "command") {
		t.Errorf("names itself twice:\n%s", text)
	}
}

// A vendor's command has a version of its own: that of tierkit is the version of a module in it.
func TestVersion_OfAVendorsCommand(t *testing.T) {
	b := &debug.BuildInfo{
		Path: "example.com/acme/cmd/tierkit-acme", Main: debug.Module{Path: "example.com/acme", Version: "(devel)"},
		Deps: []*debug.Module{{Path: "golang.org/x/sync", Version: "v9.9.9"}, {Path: "github.com/tierkit/tierkit", Version: "v1.2.3"}},
	}
	if text := versionOf(t, b); !strings.Contains(text, "tierkit           v1.2.3\n") || !strings.Contains(text, "example.com/acme/cmd/tierkit-acme devel\n") {
		t.Errorf("%s", text)
	}
	v := lines(t, versionOf(t, b, "--json"))[0]
	if v["version"] != "v1.2.3" || v["command"] != "example.com/acme/cmd/tierkit-acme" || v["commandVersion"] != "devel" || v["revision"] != nil || v["modified"] != nil {
		t.Errorf("%v", v)
	}
	b.Deps[1].Replace = &debug.Module{Path: "../tierkit"}
	if v := lines(t, versionOf(t, b, "--json"))[0]; v["version"] != "devel of ../tierkit" {
		t.Errorf("replaced: %v", v)
	}
}

func TestVersion_OfAProgramWithoutARecord(t *testing.T) {
	v := lines(t, versionOf(t, nil, "--json"))[0]
	if v["version"] != "devel" || v["go"] == "" || v["platform"] == "" {
		t.Errorf("%v", v)
	}
	if n, ok := v["pluginProtocol"].(interface{ String() string }); !ok || n.String() != itoa(serve.Protocol) {
		t.Errorf("the protocol is %v", v["pluginProtocol"])
	}
}
