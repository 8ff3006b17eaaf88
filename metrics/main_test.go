package metrics_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// registry has cs, each checked for consistency at every gathering.
func registry(t *testing.T, cs ...prometheus.Collector) *prometheus.Registry {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	for _, c := range cs {
		if err := reg.Register(c); err != nil {
			t.Fatal(err)
		}
	}
	return reg
}

// series gathers name{label="value",...} to its value; of a histogram it is name_count.
func series(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%s", l.GetName(), l.GetValue()))
			}
			name := f.GetName() + "{" + strings.Join(labels, ",") + "}"
			switch {
			case m.GetHistogram() != nil:
				out[strings.Replace(name, "{", "_count{", 1)] = float64(m.GetHistogram().GetSampleCount())
			case m.GetCounter() != nil:
				out[name] = m.GetCounter().GetValue()
			default:
				out[name] = m.GetGauge().GetValue()
			}
		}
	}
	return out
}

// changes returns the series of after that are not the same in before.
func changes(before, after map[string]float64) map[string]float64 {
	out := maps.Clone(after)
	maps.DeleteFunc(out, func(k string, v float64) bool { old, was := before[k]; return was && old == v })
	return out
}

// wantNoNew fails if after has series that before has not: they should have been there at zero.
func wantNoNew(t *testing.T, before, after map[string]float64) {
	t.Helper()
	for _, k := range slices.Sorted(maps.Keys(after)) {
		if _, was := before[k]; !was {
			t.Errorf("series %s was not there before its first event", k)
		}
	}
}
