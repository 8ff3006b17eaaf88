package conformance

import (
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/internal/settings"
)

// KnobsOf finds the Knobs of a driver in its table of settings, by the ends of names that all drivers of this module have: .endpoint.url or .url,
// .part.size, .block.size or .chunk.size (whose least value counts, or 64 KiB), .connect.timeout, .response.timeout and .stall.timeout, .max.connections,
// .max.attempts, .max.retry.delay, .ca.file, .checksum.check.enabled or .check.reads, .bucket, .bucket.name or .container.name. What credentials look like cannot be found out like this.
func KnobsOf(f backends.Factory) Knobs {
	var k Knobs
	find := func(ends ...string) *backends.Setting {
		for i := range f.Settings {
			s := &f.Settings[i]
			for _, end := range ends {
				if s.NoEffect == "" && strings.HasSuffix(s.Name, end) {
					return s
				}
			}
		}
		return nil
	}
	k.SmallParts, k.PartBytes = smallest(f, find(".part.size", ".block.size", ".chunk.size"))
	if s := find(".endpoint.url", ".url"); s != nil {
		k.Endpoint = func(url string) map[string]string { return map[string]string{s.Name: url} }
	}
	if s := find(".ca.file"); s != nil {
		k.CAFile = func(path string) map[string]string { return map[string]string{s.Name: path} }
	}
	if s := find(".checksum.check.enabled", ".check.reads"); s != nil && s.Type == backends.TypeBool {
		k.CheckedReads = map[string]string{s.Name: "true"}
	}
	if s := find(".max.connections"); s != nil {
		k.MaxConns = func(n int) map[string]string { return map[string]string{s.Name: strconv.Itoa(n)} }
	}
	if s := find(".max.attempts"); s != nil {
		k.Attempts = func(n int) map[string]string { return map[string]string{s.Name: strconv.Itoa(n)} }
	}
	if s := find(".max.retry.delay"); s != nil {
		k.RetryDelay = func(longest time.Duration) map[string]string { return map[string]string{s.Name: longest.String()} }
	}
	if s := find(".bucket", ".bucket.name", ".container.name"); s != nil {
		k.MissingBucket = map[string]string{s.Name: "tierkit-conformance-no-such-bucket"}
	}
	connect, response, stall := find(".connect.timeout"), find(".response.timeout"), find(".stall.timeout")
	if connect != nil && response != nil && stall != nil {
		k.Timeouts = func(d time.Duration) map[string]string {
			return map[string]string{connect.Name: d.String(), response.Name: d.String(), stall.Name: d.String()}
		}
	}
	return k
}

// leastPart is the smallest part that is chosen: with smaller ones a body of some size would be thousands of requests.
const leastPart = 64 << 10

// smallest is the override with which parts are as small as they can be.
func smallest(f backends.Factory, s *backends.Setting) (override map[string]string, n int64) {
	if s == nil || s.Type != backends.TypeBytes || s.Min == "" {
		return nil, 0
	}
	table := []backends.Setting{{Name: s.Name, Type: s.Type, Doc: s.Doc}}
	override = map[string]string{s.Name: s.Min}
	values, err := settings.Parse(table, maps.Clone(override), settings.Options{})
	if err != nil {
		panic("conformance: the smallest value of " + f.Name + "'s " + s.Name + ": " + err.Error()) // Register has checked the table
	}
	if n = values.Bytes(s.Name); n >= leastPart {
		return override, n
	}
	return map[string]string{s.Name: strconv.Itoa(leastPart)}, leastPart
}
