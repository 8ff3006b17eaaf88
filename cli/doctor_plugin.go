package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tierkit/tierkit/internal/props"
	"github.com/tierkit/tierkit/serve"
)

// pluginClass is our class in a broker.
const pluginClass = "io.github.tierkit.kafka.RemoteStorageManager"

// plugin looks at the lines by which a broker loads and uses the plug-in; nothing, where the file is no broker's. In a file without lines of the
// plug-in's own what is wrong or missing is a warning: it may be the daemon's alone, or of before the change to tierkit.
func (e *examination) plugin(file *props.File) {
	if !file.HasPlugin() {
		return
	}
	wrong := serve.Warn
	if file.RSM[keyServeCommand] != "" || file.RSM[keyServeURL] != "" {
		wrong = serve.Fail
	}
	enabled := file.Broker(props.KeyStorageEnable)
	e.line(wrong, props.KeyStorageEnable, enabled, strings.EqualFold(enabled, "true"), "the broker tiers nothing", "true")
	class := file.Broker(props.KeyManagerClass)
	e.line(wrong, props.KeyManagerClass, class, class == pluginClass, "the broker does not use tierkit", pluginClass)
	path := file.Broker(props.KeyManagerPath)
	noJar := wrong
	if path == "" {
		noJar = serve.Warn // the jar may be with Kafka's own
	}
	e.line(noJar, props.KeyManagerPath, path, hasJar(path), "the broker finds no jar of the plug-in by it", "/opt/tierkit/tierkit-kafka-plugin.jar, or where that jar is")
	name := "PLAINTEXT"
	if l := file.Listeners(); len(l) > 0 {
		name = l[0].Name
	}
	listener := file.Broker(props.KeyMetadataManager)
	e.line(wrong, props.KeyMetadataManager, listener, reached(file, listener), "the broker does not reach its topic of metadata", name+", or another name of its listeners")
}

// reached tells whether a broker reaches its topic of metadata by the listener of that name.
func reached(file *props.File, listener string) bool {
	all := file.Listeners()
	if listener == "" || len(all) == 0 { // all that it listens on is not said
		return listener != "" || file.HasBootstrap()
	}
	return slices.ContainsFunc(all, func(l props.Listener) bool { return strings.EqualFold(l.Name, listener) })
}

// line reports one line of the broker's file: bad says what is so while it is not good, write the value it should have. wrong is the result then.
func (e *examination) line(wrong serve.Result, key, value string, good bool, bad, write string) {
	f := serve.Finding{Check: key, Result: serve.OK}
	switch {
	case good:
	case value == "":
		f.Result, f.Text = wrong, "is not set: "+bad
	default:
		f.Result, f.Text = wrong, "is "+value+": "+bad
	}
	if !good {
		f.Do = "write " + key + "=" + write
	}
	e.report(f)
}

// hasJar tells whether a class path as Kafka reads it names anything that is there.
func hasJar(path string) bool {
	return slices.ContainsFunc(filepath.SplitList(path), func(entry string) bool {
		if dir, all := strings.CutSuffix(entry, "/*"); all {
			in, err := os.ReadDir(dir)
			return err == nil && slices.ContainsFunc(in, func(e os.DirEntry) bool {
				return slices.Contains([]string{".jar", ".zip"}, strings.ToLower(filepath.Ext(e.Name())))
			})
		}
		_, err := os.Stat(entry)
		return entry != "" && err == nil
	})
}
