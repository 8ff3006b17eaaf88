package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"runtime/debug"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/internal/durable"
	"github.com/tierkit/tierkit/internal/props"
	"github.com/tierkit/tierkit/internal/settings"
	"github.com/tierkit/tierkit/metrics"
	"github.com/tierkit/tierkit/rsm"
	"github.com/tierkit/tierkit/serve"
)

// keyListen is the setting that --listen stands in for.
const keyListen = "tierkit.listen"

func (a *app) serveCmd() *cobra.Command {
	var listen string
	var supervised bool
	cmd := &cobra.Command{
		Use:   "serve --config FILE [--listen ADDRESS:PORT]",
		Short: "copy, fetch and delete segments for a broker's plug-in, over HTTP",
		Args:  none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if supervised {
				if a.config != "" || listen != "" {
					return usagef("--supervised takes everything from standard input")
				}
				return a.serveSupervised(cmd.Context())
			}
			return a.serve(cmd.Context(), listen)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "", "`ADDRESS:PORT` of the API, before tierkit.listen; port 0 is a free one")
	cmd.Flags().BoolVar(&supervised, "supervised", false, "started by the plug-in: settings and token come from standard input, whose end is the order to stop")
	return cmd
}

// daemon is what a tierkit serve is made of.
type daemon struct {
	app    *app
	log    *slog.Logger
	how    serve.Start
	prefix string // of the settings in messages

	config  serve.Config
	setup   *rsm.Setup
	broker  int32
	logDirs []string
	custom  int // bytes of custom metadata that the broker takes

	calls   *metrics.Calls
	copies  *metrics.Copies
	fetches *metrics.Fetches
	stores  *metrics.Backend

	warnings []string // for the log of a client that started it

	segments *rsm.Manager
	server   *serve.Server
	at       serve.Listeners
	unlimit  func() // nil: the limit is the operator's
}

// newDaemon has a log for machines: time stamps and levels.
func (a *app) newDaemon(how serve.Start) *daemon {
	d := &daemon{app: a, how: how, custom: serve.DefaultMaxCustomBytes, calls: metrics.NewCalls(), copies: metrics.NewCopies(), fetches: metrics.NewFetches()}
	d.log = slog.New(slog.NewTextHandler(a.Err, nil))
	if a.json {
		d.log = slog.New(slog.NewJSONHandler(a.Err, nil))
	}
	return d
}

// fromFile reads the configuration of a daemon that an operator started. The error joins every mistake.
func (d *daemon) fromFile(listen string) error {
	file, err := props.Load(d.app.config)
	if file == nil {
		return err
	}
	return errors.Join(err, d.fromProps(file, listen))
}

// fromProps takes what it needs out of the file. The error joins every mistake.
func (d *daemon) fromProps(file *props.File, listen string) error {
	own := maps.Clone(file.RSM)
	if listen != "" {
		own[keyListen] = listen
	}
	d.prefix = file.RSMPrefix
	errs := []error{named(d.settings(own), d.prefix, listen)}
	var ok bool
	if d.broker, ok = file.BrokerID(); !ok {
		errs = append(errs, settings.Missing("node.id", "is required: what the daemon keeps is kept for each broker by itself"))
	}
	if d.logDirs = d.config.LogDirs; d.logDirs == nil {
		d.logDirs = file.LogDirs()
	}
	if n := file.CustomMetadataMax(); n > 0 {
		d.custom = n
	}
	for _, n := range file.Notices {
		d.log.Warn("configuration", "notice", n)
	}
	return errors.Join(append(errs, d.checkDirs(file.LogDirs()))...)
}

// checkDirs refuses directories of the daemon's in those of its broker.
func (d *daemon) checkDirs(brokers []string) error {
	cache := ""
	if d.setup != nil {
		cache = d.setup.Config.Disk.Own()
	}
	return serve.CheckDirs(&d.config, d.broker, cache, d.prefix, slices.Concat(brokers, d.logDirs))
}

// named says of a mistake in --listen that it is there, and not in the file.
func named(err error, prefix, listen string) error {
	for _, p := range settings.Problems(err) {
		if listen != "" && p.Key == prefix+keyListen {
			p.Key = "--listen"
		}
	}
	return err
}

// What a --config that is missing should have.
const (
	storeFile  = "two lines (storage.backend=fs and storage.root=DIR)"
	daemonFile = "the lines node.id, storage.backend and what belongs to it, tierkit.state.dir, tierkit.token.file"
)

// needConfig refuses a command line without --config; least is what the file should have.
func (a *app) needConfig(least string) error {
	if a.config == "" {
		return usagef("--config FILE is required: a broker's server.properties, or %s", least)
	}
	return nil
}

// settings reads the settings of the daemon, the engine and the store.
func (d *daemon) settings(given map[string]string) error {
	var cerr, serr error
	d.config, cerr = serve.ParseConfig(given, d.how, settings.Options{Prefix: d.prefix, Getenv: d.app.LookupEnv})
	d.stores = metrics.NewBackend()
	for _, key := range []string{"storage.backend", "storage.backend.class"} {
		if f, ok := d.app.registry.Factory(given[key]); ok {
			d.stores = metrics.NewBackend(f.Name)
			break
		}
	}
	d.setup, serr = rsm.ReadSettings(rsm.OpenOptions{
		Registry: d.app.registry, Props: given, Prefix: d.prefix, Getenv: d.app.LookupEnv, Logger: d.log, Now: d.app.Now,
		Observer: d.stores, Hooks: d.copies.Hooks().And(d.fetches.Hooks()),
	})
	for _, n := range d.config.Notices {
		d.warn(n)
	}
	return errors.Join(cerr, serr)
}

// serve is tierkit serve as an operator starts it.
func (a *app) serve(ctx context.Context, listen string) (err error) {
	if err := a.needConfig(daemonFile); err != nil {
		return err
	}
	d := a.newDaemon(serve.Standalone)
	if err := d.fromFile(listen); err != nil {
		return asUsage(fmt.Errorf("%s: %w", a.config, err))
	}
	token, err := serve.ReadToken(d.config.TokenFile)
	if err != nil {
		return asUsage(err)
	}
	d.at.StopTimeout = d.config.StopTimeout
	life, end := context.WithCancel(context.WithoutCancel(ctx)) // calls are taken also while it stops
	defer end()
	if d.at.TLS, err = d.config.TLSConfig(life, d.log); err != nil {
		return asUsage(err)
	}
	defer func() { err = errors.Join(err, d.close()) }()
	if err := d.open(ctx, token); err != nil {
		return err
	}
	d.sayReady()
	return d.server.Serve(ctx, d.at)
}

func (d *daemon) sayReady() {
	d.log.Info("the API is ready", "address", d.at.API.Addr().String(), "tls", d.at.TLS != nil, "broker", d.broker, "version", d.app.version.Version)
}

// open opens everything, probes the store and listens. Whatever it returns, close closes what was opened.
func (d *daemon) open(ctx context.Context, token string) (err error) {
	if err = d.openSegments(ctx); err != nil {
		if errors.Is(err, backends.InvalidArgument) || settings.Problems(err) != nil {
			err = asUsage(err)
		}
		return err
	}
	d.limitMemory()
	store := d.segments.Store()
	handler, err := metrics.Handler(d.stores, metrics.NewLoad(store.Load), d.copies, d.fetches, metrics.NewReadAhead(d.segments.ReadAhead), d.calls, metrics.NewMemory(d.segments.Budget().Stats),
		metrics.NewCaches(d.segments.CacheStats),
		metrics.NewServe(func() serve.Stats { return d.server.Stats() }))
	if err != nil {
		return err
	}
	c := d.segments.Config()
	tokenFile := d.config.TokenFile
	if d.how == serve.Supervised {
		tokenFile = "" // the token came with the start
	}
	d.server, err = serve.Open(ctx, serve.Options{
		Segments: d.segments, Token: token, TokenFile: tokenFile, StateDir: d.config.StateDir, BrokerID: d.broker, SpoolBytes: d.config.SpoolBytes,
		LogDirs: d.logDirs, DeriveLogDirs: d.how == serve.Supervised && d.logDirs == nil, Probe: store.Probe,
		ChunkBytes: int64(c.ChunkBytes), MaxCustomBytes: d.custom, Metrics: handler, Version: d.app.version.Version, Logger: d.log,
		Hooks: d.calls.Hooks(), Now: d.app.Now,
	})
	if err != nil {
		return err
	}
	d.warnCustom(&c)
	if err := d.probe(ctx); err != nil {
		return err
	}
	return d.listen(ctx)
}

// diskPatience is how long a start waits for the daemon before it to give the directory of the disk cache up: that is the last thing it
// does, after all for which the state directory is waited for.
const diskPatience = 40 * time.Second

// openSegments opens the engine.
func (d *daemon) openSegments(ctx context.Context) (err error) {
	give := time.NewTimer(diskPatience)
	defer give.Stop()
	again := time.NewTicker(250 * time.Millisecond)
	defer again.Stop()
	for said := false; ; said = true {
		if d.segments, err = d.setup.Open(ctx); !errors.Is(err, durable.ErrLocked) {
			return err
		}
		if !said {
			d.log.WarnContext(ctx, "waiting for the disk cache, which another process uses", "atMost", diskPatience, "error", err)
		}
		select {
		case <-again.C:
		case <-give.C:
			return err
		case <-ctx.Done():
			return err
		}
	}
}

// limitMemory makes the collector keep the whole process near the budget.
func (d *daemon) limitMemory() {
	// Of the 64 MiB that the process may have beside the budget: the runtime does not count the pages of the program itself, of which a daemon of S3 has 44 MiB
	// resident.
	const slack = 20 << 20
	if look := d.app.LookupEnv; look != nil {
		if _, given := look("GOMEMLIMIT"); given {
			return
		}
	}
	before := debug.SetMemoryLimit(d.segments.Budget().Stats().Limit + slack)
	d.unlimit = func() { debug.SetMemoryLimit(before) }
}

// probe finds out whether the store can be used. Where it never will be, as far as can be told, the daemon does not start; one that is
// away for now is waited for while calls fail. For a client that starts the daemon with its broker credentials that are refused are no
// reason either: a broker must come up again while they are renewed.
func (d *daemon) probe(ctx context.Context) error {
	err := d.server.Check(ctx)
	if err == nil || ctx.Err() != nil {
		return err
	}
	never := []backends.Code{backends.InvalidArgument, backends.Unsupported}
	if d.how == serve.Standalone {
		never = append(never, backends.Denied, backends.Unauthenticated, backends.ClockSkew)
	}
	for _, code := range never {
		if errors.Is(err, code) {
			return fmt.Errorf("the store cannot be used: %w; tierkit doctor looks at each permission", err)
		}
	}
	d.warn("the store is not usable yet; calls fail until it is: " + oneLine(err))
	return nil
}

// warn tells the daemon's log and the client's.
func (d *daemon) warn(text string) {
	d.log.Warn(text)
	d.warnings = append(d.warnings, text)
}

// warnCustom says beforehand which topics a broker would stop copying.
func (d *daemon) warnCustom(c *rsm.Config) {
	most, err := serve.LongestTopic(d.custom, c.CustomBytes)
	if err == nil && most < serve.MaxTopicName {
		d.warn(fmt.Sprintf("custom metadata of topics with names of more than %d characters do not fit into %d bytes: the broker would delete each copy again and stop copying the partition; "+
			"raise remote.log.metadata.custom.metadata.max.bytes of the brokers, or take fields out of custom.metadata.fields.include", most, d.custom))
	}
}

func (d *daemon) listen(ctx context.Context) (err error) {
	var lc net.ListenConfig
	if d.at.API, err = lc.Listen(ctx, "tcp", d.config.Listen); err != nil {
		return asUsage(fmt.Errorf("tierkit.listen: %w", err))
	}
	if d.config.Metrics == "" {
		return nil
	}
	if d.at.Metrics, err = lc.Listen(ctx, "tcp", d.config.Metrics); err != nil {
		return asUsage(fmt.Errorf("tierkit.metrics.listen: %w", err))
	}
	d.log.Info("metrics are ready", "address", d.at.Metrics.Addr().String())
	return nil
}

// close closes what was opened, in the other order.
func (d *daemon) close() error {
	var errs []error
	for _, l := range []net.Listener{d.at.API, d.at.Metrics} {
		if l != nil {
			_ = l.Close() // the server has, as a rule
		}
	}
	if d.server != nil {
		errs = append(errs, d.server.Close())
	}
	if d.segments != nil {
		errs = append(errs, d.segments.Close())
	}
	if d.unlimit != nil {
		d.unlimit()
	}
	return errors.Join(errs...)
}

// startLine is the one line on the standard output of a supervised daemon.
type startLine struct {
	Protocol  int      `json:"protocol"`
	Port      int      `json:"port,omitempty"`
	Version   string   `json:"version,omitempty"`
	Deletes   string   `json:"deletes,omitempty"`
	Warnings  []string `json:"warnings,omitempty"`
	Error     string   `json:"error,omitempty"`
	Retriable *bool    `json:"retriable,omitempty"` // of an error
}

func (a *app) printStart(l startLine) error {
	l.Protocol = serve.Protocol
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return a.printf("%s\n", data)
}
