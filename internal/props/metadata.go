package props

import (
	"errors"
	"path/filepath"
	"strings"

	"github.com/tierkit/tierkit/internal/settings"
)

// The settings of the metadata side, and what decides between its logs.
const (
	keyLog         = "metadata.log"
	keyMetadataDir = "metadata.log.dir"
	keySnapshotDir = "metadata.snapshot.dir"
	keyBootstrap   = "remote.log.metadata.common.client.bootstrap.servers"
	keyRoot        = "storage.root"
	kafkaKeys      = "remote.log.metadata." // the Kafka log's own settings
)

// LogKind says where the metadata of remote segments lives.
type LogKind string

// The kinds of metadata log.
const (
	LogFile   LogKind = "file"
	LogMemory LogKind = "memory"
	LogKafka  LogKind = "kafka"
)

// MetadataSettings is the table of the metadata side.
func MetadataSettings() []settings.Setting {
	return []settings.Setting{
		{
			Name: keyLog, Type: settings.TypeString, OneOf: []string{string(LogFile), string(LogMemory), string(LogKafka)},
			Doc: "Where the metadata of remote segments lives: a file log of this machine, memory (gone when the process ends), or the topic " +
				"`__remote_log_metadata`. The default is `kafka` where `" + keyBootstrap + "` is set or `" + keyMetadataListener +
				"` names a listener of the broker's, else `file`. In a broker's file it may also stand without prefix.",
		},
		{
			Name: keyMetadataDir, Type: settings.TypeFile,
			Doc: "The directory of the file log. The default is `<" + keyRoot + ">/.tierkit/metadata`; without `" + keyRoot + "` it is required. " +
				"In a broker's file it needs the prefix, because Kafka has a `" + keyMetadataDir + "` of its own.",
		},
		{
			Name: keySnapshotDir, Type: settings.TypeFile,
			Doc: "A directory for snapshots of the metadata, one file for each log: the next start reads only what the log got afterwards. " +
				"One that is damaged or does not fit the log is passed over, and any may be deleted. Without it the whole log is read each time.",
		},
	}
}

// MetadataLog says which log to open.
type MetadataLog struct {
	Kind LogKind
	Dir  string // of LogFile
	// SnapshotDir is where snapshots of the metadata are kept; "" means nowhere.
	SnapshotDir string

	// Of LogKafka: where to connect, with which security.protocol ("" for the client's default), and all remote.log.metadata.* settings.
	BootstrapServers []string
	SecurityProtocol string
	Kafka            map[string]string
}

// MetadataLog reads the settings of the metadata side. The error joins every mistake. With one, the result may still name Kafka,
// so that a caller can look for further mistakes in its settings.
func (f *File) MetadataLog(o settings.Options) (MetadataLog, error) {
	o.Prefix = f.RLMMPrefix
	own, kafka := map[string]string{}, map[string]string{}
	for key, value := range f.RLMM {
		if strings.HasPrefix(key, kafkaKeys) {
			kafka[key] = value
		} else {
			own[key] = value
		}
	}
	var errs []error
	errs = append(errs, f.bareLog(own))
	values, err := settings.Parse(MetadataSettings(), own, o)
	errs = append(errs, err)
	m := MetadataLog{Kind: LogKind(values.String(keyLog)), Dir: values.File(keyMetadataDir), SnapshotDir: values.File(keySnapshotDir)}
	servers, protocol := f.bootstrap(kafka)
	switch {
	case m.Kind == "" && values.IsSet(keyLog): // reported already
		return MetadataLog{}, errors.Join(errs...)
	case m.Kind == "" && len(servers) > 0:
		m.Kind = LogKafka
	case m.Kind == "":
		m.Kind = LogFile
	}
	switch m.Kind {
	case LogKafka:
		m.Dir, m.BootstrapServers, m.SecurityProtocol, m.Kafka = "", servers, protocol, kafka
		if len(servers) == 0 {
			errs = append(errs, settings.Missing(o.Prefix+keyBootstrap, "is required with %s=%s, or %s with the name of a listener of the broker's",
				keyLog, LogKafka, keyMetadataListener))
		}
	case LogFile:
		errs = append(errs, f.defaultDir(&m, values, o.Prefix))
	case LogMemory:
		m.Dir, m.SnapshotDir = "", "" // no other process has this log
	}
	err = errors.Join(errs...)
	if err != nil && len(servers) == 0 {
		return MetadataLog{}, err
	}
	return m, err
}

// bareLog adds a metadata.log that stands without prefix in a broker's file.
func (f *File) bareLog(own map[string]string) error {
	bare, ok := f.all[keyLog]
	if !ok || f.RLMMPrefix == "" {
		return nil
	}
	if prefixed, both := own[keyLog]; both && strings.TrimSpace(prefixed) != strings.TrimSpace(bare) {
		return settings.Problemf(keyLog, bare, "differs from %s%s=%s", f.RLMMPrefix, keyLog, prefixed)
	}
	own[keyLog] = bare
	return nil
}

// bootstrap returns where Kafka is. The setting goes before the listener, as in a broker (RemoteLogManager.configureRLMM).
func (f *File) bootstrap(kafka map[string]string) (servers []string, protocol string) {
	if servers := splitList(kafka[keyBootstrap]); len(servers) > 0 {
		return servers, ""
	}
	name := strings.ToUpper(strings.TrimSpace(f.all[keyMetadataListener]))
	for _, l := range f.Listeners() {
		if name != "" && l.Name == name {
			return []string{l.Address}, l.Protocol
		}
	}
	return nil, ""
}

func (f *File) defaultDir(m *MetadataLog, values *settings.Values, prefix string) error {
	root := strings.TrimSpace(f.RSM[keyRoot])
	switch {
	case values.IsSet(keyMetadataDir): // a mistake in it is reported already
		return nil
	case root != "":
		m.Dir = filepath.Join(root, ".tierkit", "metadata")
		return nil
	case f.all[keyMetadataListener] != "":
		return settings.Problemf(keyMetadataListener, f.all[keyMetadataListener],
			"names no listener with an address in %s or %s (those of controllers do not count); without Kafka set %s%s", keyAdvertised, keyListeners, prefix, keyMetadataDir)
	}
	return settings.Missing(prefix+keyMetadataDir, "is required without %s and without Kafka (%s)", keyRoot, keyBootstrap)
}
