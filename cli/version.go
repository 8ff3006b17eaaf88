package cli

import (
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tierkit/tierkit/serve"
)

// tierkitModule is the path of this module.
const tierkitModule = "github.com/tierkit/tierkit"

// versionJSON is the JSON shape of version. What was not recorded is null; Revision and what follows are those of the command's own module, in which a
// vendor's command is not tierkit's.
type versionJSON struct {
	Version        string  `json:"version"` // of tierkit
	Command        string  `json:"command"` // the path of the main package
	CommandVersion string  `json:"commandVersion"`
	Revision       *string `json:"revision"`
	RevisionTime   *string `json:"revisionTime"`
	Modified       *bool   `json:"modified"` // built from a tree that was not the revision's
	Go             string  `json:"go"`
	Platform       string  `json:"platform"`
	PluginProtocol int     `json:"pluginProtocol"`
}

// versionOf reads what the go command recorded. In the command of a vendor tierkit is one of the modules that it is made of.
func versionOf(b *debug.BuildInfo) versionJSON {
	v := versionJSON{
		Version: "devel", Command: tierkitModule + "/cmd/tierkit", CommandVersion: "devel",
		Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, PluginProtocol: serve.Protocol,
	}
	if b == nil {
		return v
	}
	known := func(text string) string {
		if text = strings.Trim(text, "()"); text == "" { // (devel)
			return "devel"
		}
		return text
	}
	v.Command, v.CommandVersion = b.Path, known(b.Main.Version)
	if b.Main.Path == tierkitModule {
		v.Version = v.CommandVersion
	}
	for _, m := range b.Deps {
		if m.Path != tierkitModule {
			continue
		}
		v.Version = known(m.Version)
		if m.Replace != nil { // by a directory, which has no version, or by a fork, which has another
			v.Version = known(m.Replace.Version) + " of " + m.Replace.Path
		}
	}
	for _, s := range b.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = new(s.Value)
		case "vcs.time":
			v.RevisionTime = new(s.Value)
		case "vcs.modified":
			v.Modified = new(s.Value == "true")
		}
	}
	return v
}

func (a *app) versionCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "print the versions of tierkit, of this program, of Go and of the protocol that the plug-in speaks",
		Args:  none,
		RunE: func(*cobra.Command, []string) error {
			if a.json {
				return a.printJSON(a.version)
			}
			return a.versionText()
		},
	}
}

func (a *app) versionText() error {
	v := a.version
	t := newTable(a.Out)
	t.row("tierkit", v.Version)
	if !strings.HasPrefix(v.Command, tierkitModule+"/") {
		t.row("command", v.Command+" "+v.CommandVersion)
	}
	if v.Revision != nil {
		text := *v.Revision
		if v.RevisionTime != nil {
			text += " of " + *v.RevisionTime
		}
		if v.Modified != nil && *v.Modified {
			text += ", with changes"
		}
		t.row("revision", text)
	}
	t.row("Go", v.Go+" "+v.Platform)
	t.row("plug-in protocol", strconv.Itoa(v.PluginProtocol))
	return t.flush()
}
