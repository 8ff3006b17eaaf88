package serve

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
)

const (
	// slackBytes is what the process has beside the memory budget: see docs/serve.md.
	slackBytes = 64 << 20
)

// memory holds the budget against the memory that there is.
func (x *Subject) memory() {
	b := x.Segments.Budget()
	limit, needs := b.Stats().Limit, b.Needs()
	f := Finding{
		Check: "memory: the budget", Result: OK,
		Text: fmt.Sprintf("memory.budget.bytes is %d MiB, %d MiB are needed at least", limit>>20, (needs.Fixed+needs.Copy+needs.Fetch)>>20),
	}
	have, of := memoryOf("/sys/fs/cgroup/memory.max", "/proc/meminfo")
	switch {
	case have == 0:
	case limit+slackBytes > have:
		f.Result, f.Do = Fail, "lower memory.budget.bytes, or give the process more"
		f.Text += fmt.Sprintf("; with %d MiB beside it that is more than the %d MiB of %s", slackBytes>>20, have>>20, of)
	case limit+slackBytes > have/2:
		f.Result, f.Do = Warn, "see that the broker and the page cache have enough beside it, or lower memory.budget.bytes"
		f.Text += fmt.Sprintf("; with %d MiB beside it that is more than half of the %d MiB of %s", slackBytes>>20, have>>20, of)
	}
	x.Report(f)
}

// memoryOf is the memory that this process may use, and whose limit that is; 0 where it cannot be told.
func memoryOf(cgroup, meminfo string) (n int64, of string) {
	if data, err := os.ReadFile(cgroup); err == nil {
		if n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64); err == nil {
			return n, "this container"
		}
	}
	data, err := os.ReadFile(meminfo)
	if err != nil {
		return 0, ""
	}
	for sc := bufio.NewScanner(bytes.NewReader(data)); sc.Scan(); {
		if kib, ok := strings.CutPrefix(sc.Text(), "MemTotal:"); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(kib, "kB")), 10, 64)
			if err == nil {
				return n << 10, "this machine"
			}
		}
	}
	return 0, ""
}

func (x *Subject) token() {
	if x.Config.TokenFile == "" {
		return // as above
	}
	const what = "token"
	if _, err := ReadToken(x.Config.TokenFile); err != nil {
		x.check(what, err, "write 16 to 1024 printable characters into the file that "+keyTokenFile+" names")
		return
	}
	if fi, err := os.Stat(x.Config.TokenFile); err == nil && fi.Mode().Perm()&0o077 != 0 {
		x.Report(Finding{Check: what, Result: Warn, Text: "others than its owner may read it (mode " + fi.Mode().Perm().String() + ")",
			Do: "chmod 600, or give it to a group of broker and daemon alone"})
		return
	}
	x.check(what, nil, "")
}

func (x *Subject) tls() {
	if x.Config.CertFile == "" {
		return
	}
	_, err := x.Config.readTLS()
	x.check("TLS: certificates and key", err, "PEM files; the key must be the certificate's")
}

func (x *Subject) logDirs() {
	if len(x.LogDirs) == 0 {
		x.Report(Finding{Check: "log directories", Result: Warn, Text: "none: every file of a segment is sent over the connection",
			Do: "set " + keyLogDirs + ", unless broker and daemon share no disk"})
		return
	}
	for _, dir := range x.LogDirs {
		d, err := os.Open(dir)
		if err == nil {
			_, err = d.Readdirnames(1)
			if err = errors.Join(noEnd(err), d.Close()); err == nil {
				x.Report(Finding{Check: "log directory " + dir + ": access", Result: OK})
				continue
			}
		}
		x.Report(Finding{Check: "log directory " + dir + ": access", Result: Warn, Text: oneLine(err.Error()) + "; its files are sent over the connection",
			Do: "let the daemon's user read it, or correct " + keyLogDirs})
	}
}

// addresses finds out whether the addresses of the API and of the metrics are free, or used by a daemon that runs.
func (x *Subject) addresses(ctx context.Context) {
	x.address(ctx, keyListen, x.Config.Listen)
	x.address(ctx, keyMetrics, x.Config.Metrics)
}

func (x *Subject) address(ctx context.Context, setting, address string) {
	if _, port, err := net.SplitHostPort(address); err != nil || port == "0" {
		return // none, a mistake in the settings and reported as one, or any port that is free
	}
	what := "address " + address
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		x.Report(Finding{Check: what, Result: Warn, Text: "it is in use, by a daemon that runs already or by somebody else", Do: "nothing if a daemon runs; else set " + setting})
	case err != nil:
		x.check(what, err, "set "+setting)
	default:
		x.check(what, l.Close(), "")
	}
}

// noEnd drops the end of an empty directory, which is no error.
func noEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
