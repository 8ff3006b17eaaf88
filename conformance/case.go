package conformance

import (
	"context"
	"slices"

	"github.com/tierkit/tierkit/backends"
)

// T is the part of testing.TB that cases use, so that they also run without go test.
type T interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	FailNow()
	Failed() bool
	Logf(format string, args ...any)
	Cleanup(f func())
	Context() context.Context
	TempDir() string
}

// Level is what a case runs on.
type Level int

// The levels. Driver is a bare driver, Store a Store over it with a prefix and masking; Both runs a case twice.
const (
	Both Level = iota
	Driver
	Store
)

func (l Level) String() string { return [...]string{"both", "driver", "store"}[l] }

// Facility is something that a Harness may lack.
type Facility string

// The facilities.
const (
	UsesDialect          Facility = "a Dialect, which names the driver's requests"
	UsesFaults           Facility = "a Dialect, which names the driver's requests and forges errors"
	UsesBulkForger       Facility = "a Dialect that is a BulkForger"
	UsesFactory          Facility = "a Factory with Settings"
	UsesParts            Facility = "a setting for the size of parts (Knobs.PartBytes)"
	UsesTinyParts        Facility = "a setting for parts of 64 KiB or less (Knobs.PartBytes)"
	UsesCheckedReads     Facility = "a setting for reads that are compared with the store's checksum (Knobs.CheckedReads)"
	UsesEndpoint         Facility = "a setting for the server's address (Knobs.Endpoint)"
	UsesWrongCredentials Facility = "credentials that are refused (Knobs.WrongCredentials)"
	UsesNoCredentials    Facility = "settings without credentials (Knobs.NoCredentials)"
	UsesReadOnly         Facility = "credentials that may only read (Knobs.ReadOnly)"
	UsesMissingBucket    Facility = "a bucket that does not exist (Knobs.MissingBucket)"
	UsesCAFile           Facility = "a setting for the certificates that are trusted (Knobs.CAFile)"
	UsesCredentialsFile  Facility = "a file with credentials (Knobs.CredentialsFile)"
	UsesTokenServer      Facility = "a store that takes tokens of the suite's own server (Knobs.TokenServer)"
	UsesPlainServer      Facility = "a server without TLS whose address can be set (Knobs.Endpoint)"
	UsesTimeouts         Facility = "settings for timeouts (Knobs.Timeouts)"
	UsesMaxConns         Facility = "a setting for the number of connections (Knobs.MaxConns)"
	UsesAttempts         Facility = "a setting for the number of attempts (Knobs.Attempts)"
	UsesRetryDelay       Facility = "a setting for the pause between attempts (Knobs.RetryDelay)"
	UsesChecksums        Facility = "modes of checksums (Knobs.Checksums)"
	UsesGoTest           Facility = "virtual time, which there is under go test alone"
)

func (h *Harness) has(f Facility) bool {
	k := h.Knobs
	_, forges := h.Dialect.(BulkForger)
	return map[Facility]bool{
		UsesDialect: h.Dialect != nil, UsesBulkForger: forges, UsesFaults: h.Dialect != nil && h.NoFaults == "", UsesFactory: h.Factory != nil && h.Settings != nil, UsesParts: k.PartBytes > 0, UsesTinyParts: k.PartBytes > 0 && k.PartBytes <= leastPart, UsesCheckedReads: k.CheckedReads != nil, UsesEndpoint: k.Endpoint != nil,
		UsesWrongCredentials: k.WrongCredentials != nil, UsesNoCredentials: k.NoCredentials != nil, UsesReadOnly: k.ReadOnly != nil,
		UsesMissingBucket: k.MissingBucket != nil, UsesCAFile: k.CAFile != nil, UsesCredentialsFile: k.CredentialsFile != nil,
		UsesTokenServer: k.TokenServer != nil, UsesPlainServer: h.plainServer() != "", UsesTimeouts: k.Timeouts != nil, UsesMaxConns: k.MaxConns != nil,
		UsesAttempts: k.Attempts != nil, UsesRetryDelay: k.RetryDelay != nil, UsesChecksums: len(k.Checksums) > 0,
	}[f]
}

// Case is one requirement.
type Case struct {
	ID     string // "get/range-past-end-clipped"
	Rule   string // the sentence of the contract that it enforces
	Level  Level
	Needs  func(backends.Properties) (excludes string) // the property that excludes the case, "" for none; nil: every driver
	Uses   []Facility
	Scale  Scale  // Full: not in a Quick run
	Step   string // of the requests that the case is about: it does not run on a driver that makes none
	Serial bool   // it measures the process, or loads the machine: nothing runs beside it
	Run    func(T, *Bench)
}

func (c *Case) levels() []Level {
	if c.Level == Both {
		return []Level{Driver, Store}
	}
	return []Level{c.Level}
}

// skips tells why the case does not run, "" if it does.
func (j job) skips(h *Harness, p backends.Properties) string {
	c := &j.c
	if c.Scale > h.Scale {
		return "runs at the scale full"
	}
	if c.Needs != nil {
		if excludes := c.Needs(p); excludes != "" {
			return "the driver's properties exclude it: " + excludes
		}
	}
	for _, f := range c.Uses {
		if f == UsesFaults && h.NoFaults != "" {
			return "no faults with this server: " + h.NoFaults
		}
		if f == UsesGoTest && j.tt != nil {
			continue
		}
		if !h.has(f) {
			return "the suite was not given " + string(f)
		}
	}
	return ""
}

// Cases returns every case, in a fixed order.
func Cases() []Case {
	return slices.Concat(putCases(), getCases(), statCases(), overwriteCases(), deleteCases(), listCases(), keysCases(), ctxCases(), sourceCases(), mpuCases(), concCases(), modelCases(),
		resCases(), netCases(), silentCases(), tlsCases(), credCases(), closeCases(), envCases(), configCases(), propsCases(),
		cancelCases(), uploadCases(), matrixCases(), retryCases(), resumeCases(), tellCases(), errorCases())
}

// What many cases need.
func ifAbsent(p backends.Properties) string { return unless(p.IfAbsent, "IfAbsent is false") }
func versions(p backends.Properties) string { return unless(p.Versions, "Versions is false") }
func overHTTP(p backends.Properties) string { return unless(p.HTTP, "HTTP is false") }

// unless is what excludes a case where ok does not hold.
func unless(ok bool, excludes string) string {
	if ok {
		return ""
	}
	return excludes
}
