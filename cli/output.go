package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
)

// printJSON writes v as one line of JSON.
func (a *app) printJSON(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := a.Out.Write(b.Bytes())
	return err
}

// notice tells people something on standard error, on one line.
func (a *app) notice(text string) {
	_, _ = fmt.Fprintf(a.Err, "tierkit: %s\n", printable(strings.ReplaceAll(text, "\n", "; "))) // there is nobody left to tell
}

// printable is text from a store, a metadata log or a directory as a terminal may see it: it stays on its line and moves no cursor.
func printable(s string) string {
	if !strings.ContainsFunc(s, unicode.IsControl) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unicode.IsControl(r) {
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func (a *app) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(a.Out, format, args...)
	return err
}

// table lines up rows in columns; it is written when it is flushed.
type table struct{ w *tabwriter.Writer }

func newTable(w io.Writer, head ...string) *table {
	t := &table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	if len(head) > 0 {
		t.row(head...)
	}
	return t
}

func (t *table) row(cells ...string) {
	for i := range cells {
		cells[i] = printable(cells[i])
	}
	_, _ = io.WriteString(t.w, strings.Join(cells, "\t")+"\n") // flush reports what fails
}

func (t *table) flush() error { return t.w.Flush() }

// size prints a number of bytes for people, in powers of ten as disks and stores count.
func size(n int64) string {
	const unit = 1000
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	v, i := float64(n)/unit, 0
	for v >= 999.95 && i < len("kMGTPE")-1 {
		v /= unit
		i++
	}
	return fmt.Sprintf("%.1f %cB", v, "kMGTPE"[i])
}

// rate prints bytes per second.
func rate(n int64, d time.Duration) string {
	if d <= 0 {
		return "-"
	}
	return size(int64(float64(n)/d.Seconds())) + "/s"
}

// seconds is a duration as the JSON shapes have it.
func seconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e6 }

// timestamp prints Kafka's milliseconds for people.
func timestamp(ms int64) string {
	if ms < 0 {
		return "-"
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02 15:04:05.000")
}

// lineHandler is a slog.Handler for people: "tierkit: message: notice (key=value, ...)", one line, Info and above. The attribute
// "notice" is a sentence and stands as one.
type lineHandler struct {
	w     io.Writer
	attrs []slog.Attr
}

var _ slog.Handler = (*lineHandler)(nil)

// Enabled implements slog.Handler.
func (h *lineHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

// Handle implements slog.Handler. Records are written with one Write each; os.Stderr needs no lock for that.
func (h *lineHandler) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	var parts []string
	add := func(at slog.Attr) bool {
		if at.Key == "notice" {
			text += ": " + at.Value.Resolve().String()
		} else {
			parts = append(parts, at.Key+"="+at.Value.Resolve().String())
		}
		return true
	}
	for _, at := range h.attrs {
		add(at)
	}
	r.Attrs(add)
	line := "tierkit: " + strings.ReplaceAll(text, "\n", "; ")
	if len(parts) > 0 {
		line += " (" + strings.ReplaceAll(strings.Join(parts, ", "), "\n", "; ") + ")"
	}
	_, err := io.WriteString(h.w, printable(line)+"\n")
	return err
}

// WithAttrs implements slog.Handler.
func (h *lineHandler) WithAttrs(as []slog.Attr) slog.Handler {
	return &lineHandler{w: h.w, attrs: append(h.attrs[:len(h.attrs):len(h.attrs)], as...)}
}

// WithGroup implements slog.Handler; groups have no meaning in one line.
func (h *lineHandler) WithGroup(string) slog.Handler { return h }
