package cli

import (
	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/internal/props"
	"github.com/tierkit/tierkit/internal/settings"
	"github.com/tierkit/tierkit/rlmm/kafkalog"
	"github.com/tierkit/tierkit/rsm"
	"github.com/tierkit/tierkit/serve"
)

// Component is a part of tierkit with settings of its own.
type Component struct {
	Name     string // on the command line
	Doc      string
	Settings []settings.Setting
}

// Components returns every component with settings, in the order of the reference: the engine, the metadata, the choice of a driver,
// the drivers.
func Components(reg *backends.Registry) []Component {
	out := []Component{
		{Name: "rsm", Doc: "how segments are stored and read (in a broker's file below rsm.config.)", Settings: rsm.Settings()},
		{Name: "rlmm", Doc: "where the metadata live (in a broker's file below rlmm.config.)", Settings: props.MetadataSettings()},
		{Name: "kafka", Doc: "the metadata topic of Kafka, with metadata.log=kafka (in a broker's file below rlmm.config.)", Settings: kafkalog.Settings()},
		{Name: "serve", Doc: "the daemon beside a broker (in a broker's file below rsm.config.)", Settings: serve.Settings()},
		{Name: "storage", Doc: "which driver is used (in a broker's file below rsm.config.)", Settings: reg.Settings()},
	}
	for _, name := range reg.Names() {
		f, _ := reg.Factory(name)
		out = append(out, Component{Name: name, Doc: "the driver storage.backend=" + name, Settings: f.Settings})
	}
	return out
}
