package backends

import (
	"context"
	"log/slog"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// masked is what stands for the text that must not be shown, as the plug-in for brokers has it (MaskedObjectKey). A text that ends with a slash
// keeps it.
const masked = "<prefix>"

// masker replaces a text, and the forms in which URLs and quoted strings show it. The zero value changes nothing.
type masker struct {
	forms []string
	by    string
}

func newMasker(text string) masker {
	if text == "" {
		return masker{}
	}
	var escaped []string
	for part := range strings.SplitSeq(text, "/") {
		escaped = append(escaped, url.PathEscape(part))
	}
	quoted := strconv.Quote(text)
	forms := []string{
		text, strings.Join(escaped, "/"), (&url.URL{Path: text}).EscapedPath(), url.PathEscape(text), url.QueryEscape(text),
		quoted[1 : len(quoted)-1],
	}
	slices.SortFunc(forms, func(a, b string) int { return len(b) - len(a) })
	by := masked
	if strings.HasSuffix(text, "/") {
		by += "/"
	}
	return masker{slices.Compact(forms), by}
}

// text replaces every occurrence that is not the tail of a longer word: a prefix "t/" must not eat into "not/".
func (m masker) text(s string) string {
	for _, form := range m.forms {
		s = replaceWords(s, form, m.by)
	}
	return s
}

func replaceWords(s, form, by string) string {
	if !strings.Contains(s, form) {
		return s
	}
	var b strings.Builder
	for {
		i := strings.Index(s, form)
		if i < 0 {
			b.WriteString(s)
			return b.String()
		}
		before, _ := utf8.DecodeLastRuneInString(s[:i])
		first, _ := utf8.DecodeRuneInString(form)
		if i > 0 && isWord(before) && isWord(first) {
			b.WriteString(s[:i+1])
			s = s[i+1:]
			continue
		}
		b.WriteString(s[:i] + by)
		s = s[i+len(form):]
	}
}

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// logger returns a logger that masks what a driver writes.
func (m masker) logger(l *slog.Logger) *slog.Logger {
	if len(m.forms) == 0 {
		return l
	}
	return slog.New(maskHandler{l.Handler(), m})
}

// maskHandler masks messages and attributes. It must not be compared or copied into another handler's chain from outside.
type maskHandler struct {
	inner slog.Handler
	mask  masker
}

func (h maskHandler) Enabled(ctx context.Context, l slog.Level) bool { return h.inner.Enabled(ctx, l) }

func (h maskHandler) Handle(ctx context.Context, r slog.Record) error {
	out := slog.NewRecord(r.Time, r.Level, h.mask.text(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(h.attr(a))
		return true
	})
	return h.inner.Handle(ctx, out)
}

func (h maskHandler) WithAttrs(as []slog.Attr) slog.Handler {
	out := make([]slog.Attr, len(as))
	for i, a := range as {
		out[i] = h.attr(a)
	}
	return maskHandler{h.inner.WithAttrs(out), h.mask}
}

func (h maskHandler) WithGroup(name string) slog.Handler {
	return maskHandler{h.inner.WithGroup(name), h.mask}
}

func (h maskHandler) attr(a slog.Attr) slog.Attr {
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindString, slog.KindAny:
		text := v.String()
		if shown := h.mask.text(text); shown != text {
			return slog.String(a.Key, shown)
		}
		return slog.Attr{Key: a.Key, Value: v}
	case slog.KindGroup:
		inner := v.Group()
		out := make([]slog.Attr, len(inner))
		for i, g := range inner {
			out[i] = h.attr(g)
		}
		return slog.Attr{Key: a.Key, Value: slog.GroupValue(out...)}
	default:
		return slog.Attr{Key: a.Key, Value: v}
	}
}
