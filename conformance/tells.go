package conformance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/conformance/fault"
)

// tellCases are about what must not be told, and what must be.
func tellCases() []Case {
	return []Case{
		{
			ID: "err/no-secrets", Rule: "No secret is in an error or a log line, also when the store refuses it.", Needs: overHTTP,
			Uses: []Facility{UsesWrongCredentials}, Run: errSecrets,
		},
		{
			ID: "sum/modes", Rule: "In each mode of checksums a request with data has exactly the header that is documented for it, and the data no trailer or encoding of its own.",
			Level: Driver, Needs: overHTTP, Uses: []Facility{UsesDialect, UsesChecksums}, Run: sumModes,
		},
		{
			ID: "sum/download-corrupted", Rule: "Where the store has checksums and reads are checked, a whole object of which a bit changed on its way is Corrupt, never a clean end.",
			Level: Driver, Needs: overHTTP, Uses: []Facility{UsesFaults, UsesAttempts, UsesRetryDelay, UsesCheckedReads}, Step: fault.Get, Run: sumDownload,
		},
	}
}

// errSecrets plants secrets that are refused, and looks for them in all that is said of that.
func errSecrets(t T, b *Bench) {
	const planted = "Y29uZm9ybWFuY2UtcGxhbnRlZC1zZWNyZXQ=" // well-formed too where a key must be base64
	k := b.r.h.Knobs
	over := map[string]string{}
	for name, value := range k.WrongCredentials {
		if over[name] = planted; value == "" { // it takes a setting away
			over[name] = ""
		}
	}
	b.tellsNot("wrong credentials", over, planted)
	for _, value := range k.ReadOnly { // a signature in the URL of each request
		if q, err := url.ParseQuery(strings.TrimPrefix(value, "?")); err == nil && q.Get("sig") != "" {
			b.tellsNot("credentials that may only read", k.ReadOnly, q.Get("sig"))
		}
	}
}

// tellsNot makes calls of which some fail, and looks for the secret.
func (b *Bench) tellsNot(what string, over map[string]string, secret string) {
	b.t.Helper()
	lines := new(notes)
	log := slog.New(slog.NewTextHandler(lines, &slog.HandlerOptions{Level: slog.LevelDebug}))
	tells := func(text string) bool {
		return strings.Contains(text, secret) || strings.Contains(text, url.QueryEscape(secret))
	}
	failed := 0
	for name, err := range b.eachCall(ClientOptions{Override: over, Log: log}) {
		walkErrors(err, func(err error) {
			failed++
			if text := fmt.Sprintf("%v %+v", err, err); tells(text) {
				b.t.Errorf("%s with %s: got an error that tells the secret, want one without: %s", name, what, text)
			}
		})
	}
	if failed == 0 {
		b.t.Errorf("calls with %s: got no failure, want some", what)
	}
	if text := lines.String(); tells(text) {
		b.t.Errorf("the log with %s: got the secret in it, want it nowhere:\n%s", what, text)
	}
}

func sumDownload(t T, b *Bench) {
	f := newFaulty(t, b, faultOptions{attempts: 1, override: b.Harness().Knobs.CheckedReads})
	for _, offset := range []int64{0, int64(len(f.old) - 1)} {
		op := f.operationFor(fault.Get)
		var got []byte
		op.run = func(context.Context, *faulty) error {
			obj, err := f.c.Get(t.Context(), faultKey, backends.GetOptions{Range: backends.All()})
			if err != nil {
				return err
			}
			got, err = readWhole(obj)
			return errors.Join(err, obj.Body.Close())
		}
		out := f.try(op, fault.Rule{Step: fault.Get, Do: fault.Corrupt{Of: fault.Response, Offset: offset}})
		if !errors.Is(out.err, backends.Corrupt) {
			t.Errorf("byte %d changed: %d bytes came, %s, want Corrupt", offset, len(got), shown(out.err))
		}
	}
}
