package serve

import (
	"errors"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/tierkit/tierkit/internal/settings"
)

// The names of the settings, without the prefix rsm.config. that they carry in a broker's properties.
const (
	keyAll = "tierkit."

	keyStateDir    = "tierkit.state.dir"
	keyLogDirs     = "tierkit.log.dirs"
	keyListen      = "tierkit.listen"
	keyPublic      = "tierkit.listen.public"
	keyTokenFile   = "tierkit.token.file" //nolint:gosec // the name of a setting
	keyCertFile    = "tierkit.tls.cert.file"
	keyKeyFile     = "tierkit.tls.key.file"
	keyClientCA    = "tierkit.tls.client.ca.file"
	keyMetrics     = "tierkit.metrics.listen"
	keyStopTimeout = "tierkit.stop.timeout.ms"
	keySpool       = "tierkit.spool.max.bytes"
)

// DefaultSpoolBytes is the default of the setting: the ten copies that a broker makes at a time, of segments of a gibibyte, and room for
// their indexes.
const DefaultSpoolBytes = 12 << 30

// Settings returns the table of the settings of the daemon.
func Settings() []settings.Setting {
	return []settings.Setting{
		{Name: keyStateDir, Type: settings.TypeFile, Required: true,
			Doc: "Directory of what the daemon keeps: the journal of deletes, copies that run, files sent to it. On a local disk; each broker has a locked directory of its own in it."},
		{Name: keyLogDirs, Type: settings.TypeList,
			Doc: "The log directories that files of segments may be opened in. Unset: `log.dirs` or `log.dir` of the broker's file that the settings stand in; a daemon that the plug-in started takes them from the paths it is given. What is elsewhere is sent over the connection."},
		{Name: keyListen, Type: settings.TypeString, Default: "127.0.0.1:9480",
			Doc: "Address and port of the API; `--listen` goes before it. Port 0 is a free one. A daemon that the plug-in started always listens on a free port of 127.0.0.1."},
		{Name: keyPublic, Type: settings.TypeBool, Default: "false",
			Doc: "Allows an address that other machines reach. Whoever has the token can read and delete every segment: use TLS then."},
		{Name: keyTokenFile, Type: settings.TypeFile,
			Doc: "File with the token that clients show, 16 to 1024 printable characters. Required, but for a daemon that the plug-in started. Read again when it changes, within two seconds."},
		{Name: keyCertFile, Type: settings.TypeFile, With: []string{keyKeyFile},
			Doc: "PEM file with the certificate of the API and its chain; with it the API is HTTPS. Read again when it, the key or the authorities change, within two seconds."},
		{Name: keyKeyFile, Type: settings.TypeFile, With: []string{keyCertFile},
			Doc: "PEM file with the private key of that certificate."},
		{Name: keyClientCA, Type: settings.TypeFile, With: []string{keyCertFile},
			Doc: "PEM file with the authorities whose certificates clients must have, beside the token (mutual TLS)."},
		{Name: keyMetrics, Type: settings.TypeString,
			Doc: "A second address, for health, readiness and metrics alone, in plain HTTP and without a token."},
		{Name: keySpool, Type: settings.TypeBytes, Default: "12884901888", Min: "1",
			Doc: "The most bytes of files that are kept below the state directory because the daemon cannot open them itself and clients send them. A copy whose files do not fit beside those of others is refused until they do; the broker tries again."},
		{Name: keyStopTimeout, Type: settings.TypeDuration, Default: "60000", Min: "0", Max: "3600000",
			Doc: "How long a daemon that is stopped lets running copies go on. Those that take longer are cancelled and what they stored is removed, which may take 30 s more."},
	}
}

// Config is what the settings say.
type Config struct {
	StateDir string
	LogDirs  []string // nil: not given
	Listen   string
	Metrics  string // "": no second address

	TokenFile                       string
	CertFile, KeyFile, ClientCAFile string // "": none
	StopTimeout                     time.Duration
	SpoolBytes                      int64

	Notices []string // what the user should hear once
}

// Start says who started the daemon: some settings mean nothing when a client did.
type Start int

// The ways to start.
const (
	Standalone Start = iota
	Supervised       // by a client that holds its standard input
)

// ParseConfig reads the daemon's settings out of properties whose keys have lost the prefix rsm.config. Keys that are not below "tierkit."
// are others', and so are those of the plug-in for brokers. The error names every mistake.
func ParseConfig(props map[string]string, how Start, o settings.Options) (Config, error) {
	mine := map[string]string{}
	for key, value := range props {
		if strings.HasPrefix(key, keyAll) {
			mine[key] = value
		}
	}
	o.Ignored = func(key string) (reason string, ok bool) {
		return "", strings.HasPrefix(key, keyAll+"serve.") || strings.HasPrefix(key, keyAll+"plugin.")
	}
	v, err := settings.Parse(Settings(), mine, o)
	c := Config{
		StateDir: v.File(keyStateDir), LogDirs: v.List(keyLogDirs), Listen: v.String(keyListen), Metrics: v.String(keyMetrics),
		TokenFile: v.File(keyTokenFile), CertFile: v.File(keyCertFile), KeyFile: v.File(keyKeyFile), ClientCAFile: v.File(keyClientCA),
		StopTimeout: v.Duration(keyStopTimeout), SpoolBytes: v.Bytes(keySpool), Notices: v.Notices(),
	}
	errs := []error{err}
	public := v.Bool(keyPublic)
	if how == Supervised {
		c.Listen, c.CertFile, c.KeyFile, c.ClientCAFile = "127.0.0.1:0", "", "", ""
	} else {
		if c.TokenFile == "" {
			errs = append(errs, settings.Missing(o.Prefix+keyTokenFile, "is required for a daemon that you start: a file with a token that only its clients can read; or set %s, and the plug-in starts the daemon", o.Prefix+keyCommand))
		}
		errs = append(errs, c.CheckListen(o.Prefix, public))
	}
	if c.Metrics != "" {
		if _, ok := hostOf(c.Metrics); !ok {
			errs = append(errs, settings.Problemf(o.Prefix+keyMetrics, c.Metrics, "must be ADDRESS:PORT, the port 0 to 65535"))
		}
	}
	if public && c.CertFile == "" && how == Standalone {
		c.Notices = append(c.Notices, o.Prefix+keyPublic+": without "+keyCertFile+" tokens and records go over the network as they are")
	}
	return c, errors.Join(errs...)
}

// CheckListen refuses an address that is not this machine's alone, unless that is wanted.
func (c *Config) CheckListen(prefix string, public bool) error {
	host, ok := hostOf(c.Listen)
	if !ok {
		return settings.Problemf(prefix+keyListen, c.Listen, "must be ADDRESS:PORT, the port 0 to 65535")
	}
	ip := net.ParseIP(host)
	if public || host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return settings.Problemf(prefix+keyListen, c.Listen, "is not loopback: other machines could read and delete every segment with the token; set %s%s=true if they shall", prefix, keyPublic)
}

// hostOf is the host of an ADDRESS:PORT; it reports false for what is none.
func hostOf(address string) (host string, ok bool) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return host, err == nil
}
