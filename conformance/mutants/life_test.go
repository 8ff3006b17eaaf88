package mutants

// lifeMutants are about what a driver is from its opening to its end.
func lifeMutants() []Mutant {
	const driver, put, get, space = "mem/driver.go", "mem/put.go", "mem/get.go", "mem/space.go"
	const client, errs, config, open, token, gate = "acme/client.go", "acme/errors.go", "acme/config.go", "acme/driver.go", "acme/token.go", "httpstore/call.go"
	const ready = "	if d.closed.Load() {\n		return backends.Errorf(backends.Closed, \"the driver was closed\")\n	}\n"
	return []Mutant{
		in(driver, "close-once", "close/idempotent", "the second Close is an error", "	d.closed.Store(true)\n	return nil", "	if d.closed.Swap(true) {\n		return backends.Closed\n	}\n	return nil"),
		in(driver, "works-when-closed", "close/after", "calls after Close work", ready, ""),
		in(gate, "close-ends-nothing", "close/in-flight", "Close does not end what is under way, and what is under way cannot go on", "func (g *Gate) Close() { g.cancel() }", "func (g *Gate) Close() {\n	g.cancel()\n	g.ctx = context.Background()\n}"),
		in(driver, "close-forgets", "reopen/sees-data", "Close removes what was stored", "	d.closed.Store(true)\n	return nil", "	for _, key := range slices.Clone(d.space.keys) {\n		d.space.remove(key)\n	}\n	d.closed.Store(true)\n	return nil").and(driver, "	\"sync/atomic\"\n", "	\"slices\"\n	\"sync/atomic\"\n"),
		in(put, "trusts-the-checksum", "sum/declared-mismatch", "the announced checksum is not compared", "sum != *opts.CRC32C {", "sum != *opts.CRC32C && len(data) == 0 {"),
		in(put, "prints-to-stderr", "env/logger-honoured", "what is stored is printed", memStored, "	_, _ = os.Stderr.WriteString(\"stored \" + key + \"\\n\")\n"+memStored).and(put, memImport, memImport+"	\"os\"\n"),
		in(get, "reads-by-copy", "res/alloc-per-op", "a read copies what it reads first", "rest: o.data[off : off+length]}", "rest: append([]byte(nil), o.data[off:off+length]...)}"),
		in(get, "watches-every-stream", "res/no-goroutine-leak", "each stream has a goroutine that nobody ends", memGet, memGet+"\n	go func() { select {} }()"),
		in(put, "opens-a-file", "res/no-fd-leak", "each Put opens a file and leaves it open", memStored, "	if f, err := os.Open(os.Args[0]); err == nil {\n		open = append(open, f)\n	}\n"+memStored).and(put, memImport, memImport+"	\"os\"\n").and(put, "// step is", "var open []*os.File\n\n// step is"),
		in(put, "squeezes-zeros", "put/incompressible-and-zeros", "long runs of zeros are shortened", memStored, "	if len(data) > 1000 && !slices.ContainsFunc(data, func(b byte) bool { return b != 0 }) {\n		data = data[:1000]\n	}\n"+memStored).and(put, memImport, memImport+"	\"slices\"\n"),

		in(put, "clock-only-goes-on", "clock/jump", "a clock that goes back is taken for damage", memGather, "	began := d.now()\n"+memGather+"\n	if d.now().Before(began) {\n		return backends.Info{}, backends.Internal\n	}"),
		in(put, "short-names-only", "props/truth-of-segments", "names above 200 bytes between slashes are refused, and Properties do not say so", memStored, "	for name := range strings.SplitSeq(key, \"/\") {\n		if len(name) > 200 {\n			return backends.Info{}, backends.InvalidArgument\n		}\n	}\n"+memStored).and(put, memImport, memImport+"	\"strings\"\n"),
		in("parts/target.go", "parts-do-not-grow", "put/plan-limits", "parts do not grow with the object", "		if least > size {", "		if least > size<<20 {"),

		in("acme/delete.go", "bulk-failures-are-ignored", "bulk/partial-failure", "keys that could not be deleted count as deleted", "	if len(failed) > 0 {", "	if len(failed) > 1000 {"),

		in(config, "forgets-a-setting", "config/docs-match-settings", "a setting of the table is read by nobody", "ConnectTimeout: c.Duration(keyConnect),", "ConnectTimeout: 0,"),
		in(open, "own-transport", "env/transport-honoured", "requests do not go through the transport of the surroundings", "Wrap: env.WrapTransport,", ""),
		in(client, "no-agent", "env/user-agent", "requests name no agent", "	req.Header.Set(\"User-Agent\", d.env.UserAgent)\n", ""),
		in(open, "one-driver-for-all", "env/no-global-state", "the settings of the first driver hold for all", "	o.withDefaults()\n", "	if first.URL == \"\" {\n		first = o\n	}\n	o.MaxAttempts, o.URL, o.PartBytes = first.MaxAttempts, first.URL, first.PartBytes\n	o.withDefaults()\n").and(open, "// Driver stores objects", "var first Options\n\n// Driver stores objects"),
		in(errs, "missing-bucket-is-notfound", "bucket/missing", "a missing bucket looks like a missing object", `"no_such_bucket": backends.InvalidArgument`, `"no_such_bucket": backends.NotFound`),
		in(errs, "wrong-credentials-are-denied", "cred/wrong", "wrong credentials look like a missing permission", "		code = backends.Unauthenticated\n	}\n	var", "		code = backends.Denied\n	}\n	var"),
		in(errs, "refused-is-permanent", "net/refused", "a server that is not there is the caller's mistake", "	if code == backends.Unknown {\n", "	if code == backends.Unavailable {\n		code = backends.InvalidArgument\n	}\n	if code == backends.Unknown {\n"),
		in(errs, "unknown-host-is-notfound", "net/unresolvable", "a host that nobody knows is NotFound", "	case httpstore.HostName:\n", "	case httpstore.HostName:\n		code = backends.NotFound\n"),
		in(open, "waits-for-a-connection", "net/blackhole", "the connect timeout is not set", "ConnectTimeout: o.ConnectTimeout, ", "ConnectTimeout: time.Hour, "),
		in(errs, "silence-is-final", "net/silent", "a server that says nothing is not asked again", "	if code == backends.Unknown {\n", "	if code == backends.Timeout {\n		code = backends.Internal\n	}\n	if code == backends.Unknown {\n"),
		in(errs, "deafness-is-final", "net/deaf", "a server that reads nothing is the caller's mistake", "	if code == backends.Unknown {\n", "	if code == backends.Timeout {\n		code = backends.InvalidArgument\n	}\n	if code == backends.Unknown {\n"),
		in(open, "waits-for-the-rest", "net/download-stops", "the timeout of a silent stream is not set", "StallTimeout: o.StallTimeout,\n", "\n"),
		in(open, "waits-for-the-answer", "net/upload-stops", "the timeout of the answer is not set", "HeaderTimeout: o.ResponseTimeout, ", ""),
		in(client, "down-once-down-for-ever", "net/down-then-up", "a driver that could not reach its server stops trying", "	resp, err := d.http.RoundTrip(req)", "	if d.down.Load() {\n		return nil, backends.Errorf(backends.Internal, \"the store is down\")\n	}\n	resp, err := d.http.RoundTrip(req)").and(client, "		return nil, networkError(err)\n	}\n	if resp.StatusCode >= 300", "		d.down.Store(true)\n		return nil, networkError(err)\n	}\n	if resp.StatusCode >= 300").and(open, "	env  backends.Env\n}", "	env  backends.Env\n	down atomic.Bool\n}").and(open, "	\"net/url\"\n", "	\"net/url\"\n	\"sync/atomic\"\n"),
		in(errs, "certificates-are-retried", "tls/untrusted", "a certificate that is not trusted is tried again", "	switch fault {\n", "	if fault == httpstore.Certificate {\n		code = backends.Unavailable\n	}\n	switch fault {\n"),
		in(errs, "wrong-host-is-retried", "tls/wrong-host", "a certificate for another host is tried again", "	switch fault {\n", "	if fault == httpstore.Certificate {\n		code = backends.Unavailable\n	}\n	switch fault {\n"),
		in(errs, "expired-is-unavailable", "tls/expired", "an expired certificate passes for a server that is down", "	switch fault {\n", "	if fault == httpstore.Certificate {\n		code = backends.Unavailable\n	}\n	switch fault {\n"),
		in(open, "forgets-the-authority", "tls/custom-ca", "the file of certificates is not used", "CAFile: o.CAFile, ", ""),
		in(errs, "handshake-is-permanent", "tls/handshake-cut", "a handshake that breaks off is the caller's mistake", "	if code == backends.Unknown {\n", "	if code == backends.Unavailable {\n		code = backends.InvalidArgument\n	}\n	if code == backends.Unknown {\n"),
		in(client, "connections-are-thrown-away", "res/connections-reused", "a connection is closed after each answer", "	req.Header.Set(\"User-Agent\", d.env.UserAgent)\n", "	req.Header.Set(\"User-Agent\", d.env.UserAgent)\n	req.Close = true\n"),
		in(open, "connections-without-bound", "res/connections-capped", "the bound of connections is not set", "MaxConns: o.MaxConns, ", ""),
		in(open, "lies-about-parts", "props/truth", "Properties promise versions that are not there", "Versions: true", "Versions: false"),
		in("acme/list.go", "lists-other-prefixes", "probe/diagnoses", "a listing of one key fails", "	n := maxPage\n", "	if opts.Limit == 1 || opts.Prefix == \"\" {\n		return backends.Page{}, backends.Errorf(backends.Denied, \"no\")\n	}\n	n := maxPage\n"),
	}
}
