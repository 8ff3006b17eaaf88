package drivers

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/tierkit/tierkit/backends"
	fsdriver "github.com/tierkit/tierkit/backends/fs"
	"github.com/tierkit/tierkit/conformance"
	"github.com/tierkit/tierkit/internal/testbed"
)

// whole is everything that the drivers of these tests can do.
type whole interface {
	backends.Driver
	backends.UploadLister
	backends.Prober
	backends.PutSizer
}

type liar struct {
	whole
	lie func(p *backends.Properties)
}

func (l liar) Properties() backends.Properties {
	p := l.whole.Properties()
	l.lie(&p)
	return p
}

// bulkLiar is one that can delete in bulk.
type bulkLiar struct {
	liar
	backends.BulkDeleter
}

// wrap makes a driver lie.
func wrap(d backends.Driver, lie func(p *backends.Properties)) backends.Driver {
	l := liar{d.(whole), lie}
	if b, ok := d.(backends.BulkDeleter); ok {
		return bulkLiar{l, b}
	}
	return l
}

// TestPropsTruth_KillsALieAboutEachField: one lying driver for each field of Properties. Those that say the truth pass in the tests of the drivers.
func TestPropsTruth_KillsALieAboutEachField(t *testing.T) {
	onS3, onAzure, onFs := onS3(t, testbed.MinIO(t), nil), onAzure(t), onFs(t)
	lies := map[string]struct {
		h   conformance.Harness
		lie func(p *backends.Properties)
	}{
		"Name":            {onS3, func(p *backends.Properties) { p.Name = "s4" }},
		"MaxKeyBytes":     {onS3, func(p *backends.Properties) { p.MaxKeyBytes *= 2 }},
		"MaxSegmentBytes": {onFs, func(p *backends.Properties) { p.MaxSegmentBytes = 0 }},
		"MaxObjectBytes":  {onS3, func(p *backends.Properties) { p.MaxObjectBytes = 1 << 20 }},
		"MinPartBytes":    {onS3, func(p *backends.Properties) { p.MinPartBytes = 0 }},
		"MaxPartBytes":    {onS3, func(p *backends.Properties) { p.MaxPartBytes = 1 << 20 }},
		"MaxParts":        {onS3, func(p *backends.Properties) { p.MaxParts = 2 }},
		"MaxBulkDelete":   {onS3, func(p *backends.Properties) { p.MaxBulkDelete *= 2 }},
		"IfAbsent":        {onS3, func(p *backends.Properties) { p.IfAbsent = false }},
		"FlatKeys":        {onFs, func(p *backends.Properties) { p.FlatKeys = true }},
		"Versions":        {onS3, func(p *backends.Properties) { p.Versions = false }},
		"UserMeta":        {onS3, func(p *backends.Properties) { p.UserMeta = false }},
		"PendingExpires":  {onAzure, func(p *backends.Properties) { p.PendingExpires = 0 }},
		"HTTP":            {onFs, func(p *backends.Properties) { p.HTTP = true }},
	}
	for f := range reflect.TypeFor[backends.Properties]().Fields() {
		tc, ok := lies[f.Name]
		if !ok {
			t.Errorf("no driver lies about %s", f.Name)
			continue
		}
		t.Run(f.Name, func(t *testing.T) {
			h := tc.h
			open := h.Open
			if open == nil {
				open, h.Shared = conformance.FromFactory(*h.Factory, h.Settings), true
			}
			h.Open = func(ctx context.Context, o conformance.OpenOptions) (backends.Driver, error) {
				d, err := open(ctx, o)
				if err != nil {
					return nil, err
				}
				return wrap(d, tc.lie), nil
			}
			h.Only, h.Deviations = regexp.MustCompile(`^props/truth(-of-segments)?/driver$`), nil
			h.Limits.OpTimeout = 10 * time.Second
			var got []conformance.Result
			if err := conformance.Report(t.Context(), h, func(r conformance.Result) { got = append(got, r) }); err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(got, func(r conformance.Result) bool { return r.Outcome == conformance.Fail }) {
				t.Errorf("the lie lives: %v", got)
			}
		})
	}
}

// onFs is a harness over directories.
func onFs(t *testing.T) conformance.Harness {
	t.Helper()
	root := tempRoot(t)
	f := fsdriver.Factory()
	settings := map[string]string{keyRoot: root}
	open := conformance.FromFactory(f, settings)
	return conformance.Harness{
		Factory: &f, Settings: settings, Raw: tree(root),
		Open: func(ctx context.Context, o conformance.OpenOptions) (backends.Driver, error) {
			dir := filepath.Join(root, o.Namespace)
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return nil, err
			}
			if o.Override[keyRoot] == "" {
				o.Override[keyRoot] = dir
			}
			return open(ctx, o)
		},
		Knobs: conformance.Knobs{MissingBucket: map[string]string{keyRoot: filepath.Join(root, "no-such-directory")}},
	}
}
