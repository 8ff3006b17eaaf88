package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"syscall"
	"time"

	"github.com/tierkit/tierkit/internal/durable"
	"github.com/tierkit/tierkit/internal/settings"
	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/serve"
)

const (
	// maxStart bounds the line of a supervised start.
	maxStart = 4 << 20
	// startTime is how long it may take to arrive.
	startTime = 10 * time.Second
	// signalPatience is how long a daemon goes on after a signal while its client holds its standard input: a terminal and systemd signal
	// the whole group, and the broker still copies then.
	signalPatience = time.Minute
)

// keyPluginCustom is the plug-in's setting for remote.log.metadata.custom.metadata.max.bytes of its broker.
const keyPluginCustom = "tierkit.plugin.custom.metadata.max.bytes"

// startRequest is the line that a client sends.
type startRequest struct {
	Protocol int               `json:"protocol"`
	Token    string            `json:"token"`
	BrokerID *int32            `json:"brokerId"`
	Prefix   string            `json:"prefix"`
	Settings map[string]string `json:"settings"`
}

// serveSupervised is tierkit serve as a client starts it.
func (a *app) serveSupervised(ctx context.Context) error {
	if a.HoldSignals != nil {
		a.HoldSignals()
	}
	life, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	// A signal ends it only if the client does not.
	var late *time.Timer
	unhook := context.AfterFunc(ctx, func() { late = time.AfterFunc(signalPatience, func() { stop(context.Canceled) }) })
	defer func() {
		if !unhook() && late != nil {
			late.Stop()
		}
	}()
	err := a.supervised(life, stop)
	if err == nil {
		return nil
	}
	if perr := a.printStart(startLine{Error: oneLine(err), Retriable: new(mayPass(err))}); perr != nil {
		err = errors.Join(err, perr)
	}
	return asUsage(err)
}

// mayPass says whether the same start may succeed later.
func mayPass(err error) bool {
	return errors.Is(err, durable.ErrLocked) || errors.Is(err, syscall.EADDRINUSE) || remotelog.Retriable(err)
}

func (a *app) supervised(ctx context.Context, stop context.CancelCauseFunc) (err error) {
	q, err := a.readStart(ctx, stop)
	if err != nil {
		return err
	}
	d := a.newDaemon(serve.Supervised)
	d.prefix, d.broker = q.Prefix, *q.BrokerID
	d.at.Ending = serve.Cancel // the client that would ask for their results is gone
	if err := d.settings(q.Settings); err != nil {
		return err
	}
	d.logDirs = d.config.LogDirs
	if err := d.checkDirs(nil); err != nil {
		return err
	}
	if n, err := strconv.Atoi(q.Settings[keyPluginCustom]); err == nil && n > 0 { // a broker does not hand over its own
		d.custom = n
	}
	defer func() {
		if cerr := d.close(); cerr != nil {
			d.log.Error("closing", "error", cerr)
		}
	}()
	if err := d.open(ctx, q.Token); err != nil {
		return err
	}
	addr, ok := d.at.API.Addr().(*net.TCPAddr)
	if !ok {
		return fmt.Errorf("listening on %v, which has no port", d.at.API.Addr())
	}
	line := startLine{Port: addr.Port, Version: a.version.Version, Deletes: serve.DeletesDir(d.config.StateDir, d.broker), Warnings: d.warnings}
	if err := a.printStart(line); err != nil {
		return err
	}
	d.sayReady()
	if err := d.server.Serve(ctx, d.at); err != nil {
		d.log.Error("serving", "error", err) // the line on standard output is the only one
	}
	return nil
}

// readStart reads the line. What comes after it is nothing until its end, which stops the daemon.
func (a *app) readStart(ctx context.Context, stop context.CancelCauseFunc) (*startRequest, error) {
	type result struct {
		line []byte
		err  error
	}
	got := make(chan result, 1)
	go func() { // ends with standard input, which nobody can make a read of return: at the latest with the process
		r := bufio.NewReader(io.LimitReader(a.In, maxStart))
		line, err := r.ReadBytes('\n')
		got <- result{line, err}
		_, _ = io.Copy(io.Discard, a.In) // whatever ends it, it is the end
		stop(context.Canceled)
	}()
	t := time.NewTimer(startTime)
	defer t.Stop()
	select {
	case r := <-got:
		if r.err != nil {
			return nil, fmt.Errorf("standard input: want one line of JSON of at most %d bytes: %w", maxStart, r.err)
		}
		return parseStart(r.line)
	case <-t.C:
		return nil, fmt.Errorf("standard input: no line came within %v", startTime)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// parseStart reads the line of a client. What is wrong with the settings is found out later, all at once.
func parseStart(line []byte) (*startRequest, error) {
	var q startRequest
	if err := json.Unmarshal(line, &q); err != nil {
		return nil, errors.New("standard input: the line is not the JSON of a start") // its text may hold secrets
	}
	switch {
	case q.Protocol != serve.Protocol:
		return nil, fmt.Errorf("standard input: protocol %d, this tierkit has %d: plug-in and tierkit do not fit together", q.Protocol, serve.Protocol)
	case q.BrokerID == nil || *q.BrokerID < 0:
		return nil, errors.New("standard input: brokerId is missing or negative")
	case q.Settings == nil:
		return nil, settings.Missing("settings", "are missing on standard input")
	}
	return &q, serve.CheckToken(q.Token)
}
