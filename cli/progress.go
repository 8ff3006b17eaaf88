package cli

import (
	"fmt"
	"os"

	"golang.org/x/term"
)

// progress is one line on a terminal that says what is going on; anywhere else it is nothing.
type progress struct {
	w     *os.File // nil: not a terminal
	shown bool
}

// newProgress shows progress where standard error is a terminal and the output is for people.
func (a *app) newProgress() *progress {
	f, ok := a.Err.(*os.File)
	if !ok || a.json || !term.IsTerminal(int(f.Fd())) {
		return &progress{}
	}
	return &progress{w: f}
}

// show replaces the line.
func (p *progress) show(format string, args ...any) {
	if p.w == nil {
		return
	}
	line := fmt.Sprintf(format, args...)
	if width, _, err := term.GetSize(int(p.w.Fd())); err == nil && len(line) >= width && width > 1 {
		line = line[:width-1] // a line that wraps could not be cleared
	}
	_, _ = fmt.Fprintf(p.w, "\r\x1b[K%s", line) // progress that cannot be shown is no failure
	p.shown = true
}

// clear removes the line, so that other output can follow.
func (p *progress) clear() {
	if p.shown {
		_, _ = fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = false
	}
}
