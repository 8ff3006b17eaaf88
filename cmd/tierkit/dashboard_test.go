package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// metricName is one of ours, or of the collectors of the process and the Go runtime.
var metricName = regexp.MustCompile(`\b(tierkit|process|go)_[a-z0-9_]+\b`)

// TestServe_DashboardAndRulesNameWhatIsThere: every metric of docs/kafka's dashboard and rules is shown by a daemon that has just started.
func TestServe_DashboardAndRulesNameWhatIsThere(t *testing.T) {
	text := scrape(t, standalone(t))
	var there []string
	for line := range strings.Lines(text) {
		if name, ok := strings.CutPrefix(line, "# TYPE "); ok {
			there = append(there, strings.Fields(name)[0])
		}
	}
	for _, file := range []string{"alerts.yaml", "grafana.json"} {
		data, err := os.ReadFile(filepath.Join("..", "..", "docs", "kafka", file))
		if err != nil {
			t.Fatal(err)
		}
		names := metricName.FindAllString(string(data), -1)
		if len(names) < 5 {
			t.Errorf("%s names %d metrics", file, len(names))
		}
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			family := name
			for _, part := range []string{"_bucket", "_sum", "_count"} {
				family = strings.TrimSuffix(family, part)
			}
			if !slices.Contains(there, name) && !slices.Contains(there, family) {
				t.Errorf("%s: /metrics has no %s", file, name)
			}
		}
	}
}

func scrape(t *testing.T, s *supervised) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+serveToken)
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d, %v", resp.StatusCode, err)
	}
	return string(text)
}
