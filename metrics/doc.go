// Package metrics makes Prometheus metrics of what the other packages report. They know nothing of it: a program that wants metrics
// makes collectors, registers them, and hands them over where hooks are taken.
//
//	stores := metrics.NewBackend("s3")
//	copies, fetches := metrics.NewCopies(), metrics.NewFetches()
//	m, err := rsm.Open(ctx, rsm.OpenOptions{Registry: drivers, Props: props, Observer: stores, Hooks: copies.Hooks().And(fetches.Hooks())})
//	...
//	reg.MustRegister(stores, copies, fetches, metrics.NewReadAhead(m.ReadAhead), metrics.NewLoad(m.Store().Load), metrics.NewMemory(m.Budget().Stats),
//		metrics.NewCaches(m.CacheStats))
//
// # Metrics
//
// [Families] lists them; docs/metrics.md is made of it. Names are tierkit_<area>_<what>_<unit>. No label holds a topic, a key or the text
// of an error: the number of series is bounded by the drivers and the partitions of the metadata log. Series whose labels are known
// beforehand are there from the beginning, at zero, so that rate and increase see the first event.
//
// # Concurrency
//
// Everything is safe for concurrent use. There is no state outside of the collectors: two of a kind in one process need registerers that
// tell them apart (prometheus.WrapRegistererWith), or share one where that is meant. [NewLoad], [NewMemory], [NewCaches] and [NewPartitions] call
// their function at every scrape, from the goroutine of the scrape and with no lock held.
package metrics
