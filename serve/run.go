package serve

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/tierkit/tierkit/internal/bounded"
)

const (
	headerTime = 10 * time.Second
	idleTime   = 5 * time.Minute
	maxHeader  = 32 << 10
	lastCalls  = 10 * time.Second // that calls may take when the daemon closes
)

// Ending is what becomes of running copies when the daemon is stopped.
type Ending int

const (
	// Drain lets them go on, for StopTimeout.
	Drain Ending = iota
	// Cancel ends them: nobody will ask for their results.
	Cancel
)

// Listeners are where a server answers.
type Listeners struct {
	API     net.Listener
	Metrics net.Listener // nil: none
	TLS     *tls.Config  // of API; nil: plain HTTP

	Ending      Ending
	StopTimeout time.Duration // of Drain
}

// Serve answers until ctx ends, then stops as l says, and returns when every call has ended, or hangs (the error says so). With an error it ends by itself: a listener broke,
// or another daemon has taken the state directory. It closes the listeners; the caller closes the Server.
func (s *Server) Serve(ctx context.Context, l Listeners) error {
	api, metrics := s.server(s.Handler()), s.server(s.MetricsHandler())
	failed := make(chan error, 2)
	s.running.Go(func() {
		if l.TLS != nil {
			l.API = tls.NewListener(l.API, l.TLS)
		}
		failed <- api.Serve(l.API)
	})
	servers := []*http.Server{api}
	if l.Metrics != nil {
		servers = append(servers, metrics)
		s.running.Go(func() { failed <- metrics.Serve(l.Metrics) })
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed: // a listener that broke: nothing comes any more
	case <-s.ctx.Done():
		if err = context.Cause(s.ctx); errors.Is(err, errStopping) { // Close
			err = nil
		}
	}
	rest := context.WithoutCancel(ctx)
	s.log.InfoContext(rest, "stopping: no new copy begins", "copiesRunning", s.copies.stats().running)
	s.health.stopping()
	s.copies.refuse()
	if l.Ending == Drain && err == nil {
		drain, cancel := context.WithTimeout(rest, l.StopTimeout)
		s.copies.drain(drain)
		cancel()
	}
	s.copies.stop()
	last, cancel := context.WithTimeout(rest, lastCalls)
	defer cancel()
	for _, srv := range servers {
		if serr := srv.Shutdown(last); serr != nil {
			_ = srv.Close() // calls that go on are broken
		}
	}
	s.cancel(errStopping)
	if !bounded.Wait(lastCalls, s.handled.Wait) {
		return errors.Join(err, fmt.Errorf("%d calls did not end: a disk, or the client of the store, does not answer", s.calls.Load()+s.reads.Load()))
	}
	s.log.InfoContext(rest, "stopped: every call has ended")
	return err
}

func (s *Server) server(h http.Handler) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler: h, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader, Protocols: protocols,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug), // clients that come and go
	}
}

// TLSConfig reads the certificates that the settings name, and again when they change, until ctx ends; nil without any.
func (c *Config) TLSConfig(ctx context.Context, log *slog.Logger) (*tls.Config, error) {
	if c.CertFile == "" {
		return nil, nil
	}
	first, err := c.readTLS()
	if err != nil {
		return nil, err
	}
	return c.follow(ctx, first, log), nil
}

func (c *Config) readTLS() (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", keyCertFile, keyKeyFile, err)
	}
	t := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	if c.ClientCAFile == "" {
		return t, nil
	}
	pem, err := os.ReadFile(c.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", keyClientCA, err)
	}
	t.ClientCAs = x509.NewCertPool()
	if !t.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, errors.New(keyClientCA + ": " + c.ClientCAFile + " has no certificate")
	}
	t.ClientAuth = tls.RequireAndVerifyClientCert
	return t, nil
}
