package mutants

// Lines of the example's driver that have to do with what goes wrong.
const (
	acmeAgain   = "		again := (e.Code.Temporary() || e.Code == backends.Corrupt) && "
	acmeBounded = "attempt >= d.o.MaxAttempts"
	acmeMine    = `h.Get("Acme-Upload") == u.id`
)

func faultMutants() []Mutant {
	const client, errs, put, driver, get, body = "acme/client.go", "acme/errors.go", "acme/put.go", "acme/driver.go", "acme/get.go", "httpstore/body.go"
	return []Mutant{
		in(client, "does-not-try-again", "fault/5xx-once/put", "a 5xx is final", acmeAgain, "		again := (e.Code == backends.Throttled || e.Code == backends.Corrupt) && "),
		in(errs, "slow-down-is-denied", "fault/throttle-once/stat", "being asked to slow down is a refusal", `"slow_down": backends.Throttled`, `"slow_down": backends.Denied`),
		in(client, "broken-connection-is-final", "fault/drop-request/put", "a request that was not answered is not sent again", "		return nil, networkError(err)\n	}\n	if resp.StatusCode >= 300",
			"		return nil, backends.Errorf(backends.Internal, \"no answer: %w\", err)\n	}\n	if resp.StatusCode >= 300"),
		in(put, "lost-commit-is-failure", "fault/drop-response/mpu.commit", "nobody looks whether a commit without an answer was carried out", acmeMine, acmeMine+" && len(u.id) == 0"),
		in(client, "sends-the-rest-again", "fault/reset-mid-request/put", "a request that is sent again has only the rest of its body", "		if final || !again || attempt", "		r.body = r.body[len(r.body)/2:]\n		if final || !again || attempt"),
		in(body, "broken-stream-is-final", "fault/reset-mid-response/get", "a stream that breaks cannot be gone on with", "	return n, b.classify(&TransportError{err})", "	return n, backends.Errorf(backends.Internal, \"broken: %v\", err)"),
		in(get, "cut-stream-is-corrupt", "fault/truncate/get", "a stream that ends too early counts as damage", "func(err error) error { return networkError(err) }",
			"func(err error) error { return backends.Errorf(backends.Corrupt, \"broken: %v\", err) }"),
		in(body, "short-stream-is-final", "fault/clean-eof/get", "a stream that is too short cannot be gone on with", "	return n, b.classify(&TransportError{err})", "	return n, backends.Errorf(backends.Internal, \"too short: %v\", err)"),
		in(driver, "waits-for-headers", "fault/stall-headers/stat", "the timeout of the answer is not set", "HeaderTimeout: o.ResponseTimeout, ", ""),
		in(driver, "waits-for-bytes", "fault/stall-body/get", "the timeout of a silent stream is not set", "StallTimeout: o.StallTimeout,\n", "\n"),
		in(driver, "attempt-has-a-deadline", "fault/slow-link/put", "an attempt has to end within a time, however many bytes it has", "StallTimeout: o.StallTimeout,\n", "StallTimeout: o.StallTimeout, AttemptTimeout: o.StallTimeout,\n"),
		in(client, "answer-has-a-deadline", "fault/slow-link/mpu.commit", "an answer has to be there whole within a time, however slowly it comes", "	return resp, decode(resp, r.decode)\n",
			"	defer time.AfterFunc(d.o.StallTimeout, func() { _ = resp.Body.Close() }).Stop()\n	return resp, decode(resp, r.decode)\n"),
		in(errs, "strange-5xx-is-final", "fault/html-502/put", "a 5xx that the store did not send is the caller's mistake", "	if status >= 500 {", "	if status >= 600 {"),
		in(put, "parts-without-checksum", "fault/corrupt-bit/mpu.part", "parts are sent without their checksum", "		header: http.Header{\"Acme-Crc32c\": {checksum(p.CRC32C)}},\n", ""),

		in(client, "too-many-attempts", "fault/5xx-forever/stat", "more attempts are made than allowed", acmeBounded, "attempt >= 3*d.o.MaxAttempts"),
		in(errs, "forgets-retry-after", "fault/throttle-forever/stat", "what the store says about when to come again is not handed on", "RetryAfter: retryAfter(resp.Header), ", ""),
		in(client, "denied-is-tried-again", "fault/permanent-4xx/put", "a refusal is tried again", acmeAgain, "		again := (e.Code.Temporary() || e.Code == backends.Denied || e.Code == backends.Corrupt) && "),
		in("acme/list.go", "strange-page-is-empty", "fault/200-with-error/list", "an answer without a list of objects is an empty list", "	if out.Objects == nil || out.More",
			"	if out.Objects == nil {\n		out.Objects = new([]info)\n	}\n	if out.More"),
		in(client, "any-200-will-do", "fault/garbage-body/delete", "the page of a proxy passes for the store's answer", " && resp.StatusCode != http.StatusNoContent {", " && resp.StatusCode == http.StatusTeapot {"),
		in("acme/delete.go", "second-delete-fails", "fault/duplicate-request/delete", "a Delete that was carried out by an attempt before is an error", "	if errors.Is(err, backends.NotFound) {\n		return nil\n	}\n	return err", "	if errors.Is(err, backends.Closed) {\n		return nil\n	}\n	return err"),
	}
}

// retryMutants are about attempts, timeouts, and streams that are gone on with.
func retryMutants() []Mutant {
	const client, driver, get, put = "acme/client.go", "acme/driver.go", "acme/get.go", "acme/put.go"
	return []Mutant{
		in(client, "retry-squared", "retry/budget", "each attempt makes attempts of its own", "			resp, err = d.attempt(c.Context(), r, token)\n", "			for range 3 {\n				if resp, err = d.attempt(c.Context(), r, token); err == nil {\n					break\n				}\n			}\n"),
		in(client, "ignores-ctx-in-backoff", "retry/not-after-cancel", "a pause does not end with the context", "	case <-ctx.Done():\n		return ctx.Err()\n	}\n}\n\n// attempt", "	case <-context.WithoutCancel(ctx).Done():\n		return ctx.Err()\n	}\n}\n\n// attempt").and(client, "const firstDelay = 200 * time.Millisecond", "const firstDelay = 8 * time.Second"),
		in("acme/errors.go", "keeps-retry-after", "retry/retry-after", "what the store says about when to come again is not handed on", "RetryAfter: retryAfter(resp.Header), ", ""),
		in(get, "resumes-a-little-early", "resume/mid-body", "a range begins at a multiple of 16", "fmt.Sprintf(\"bytes=%d-%d\", r.Offset, ", "fmt.Sprintf(\"bytes=%d-%d\", r.Offset&^15, "),
		in(client, "cancel-is-a-timeout", "ctx/cancel-at-each-step/put", "the end of the caller's context is reported as a timeout of the store", "		if why := c.Ended(); why != nil { // before anything that the error says\n			return nil, why\n", "		if why := c.Ended(); why != nil { // before anything that the error says\n			return nil, backends.Timeout\n"),
		in(get, "stream-outlives-ctx", "ctx/cancel-in-the-body", "an open stream does not end with its context", "	c, err := d.gate.Begin(ctx)", "	c, err := d.gate.Begin(context.WithoutCancel(ctx))"),
		in(client, "gives-up-early", "retry/recovers-after-n", "one attempt fewer than allowed is made", acmeBounded, "attempt >= d.o.MaxAttempts-1"),
		in(client, "permanent-is-retried", "retry/not-on-permanent", "everything is tried again", acmeAgain, "		again := e.Code != backends.NotFound && "),
		in(client, "gives-up-when-throttled", "throttle/503-slowdown-burst", "being asked to slow down twice is final", acmeBounded, "attempt >= d.o.MaxAttempts || e.Code == backends.Throttled"),
		in(get, "resumes-by-itself", "resume/not-by-the-driver", "the driver opens a broken stream again", "	return &backends.Object{\n		Body: httpstore.NewBody(c, body,", "	body = &again{ReadCloser: body, d: d, c: c, key: key, o: opts, left: resp.ContentLength}\n	return &backends.Object{\n		Body: httpstore.NewBody(c, body,").and(get, "func getHeader(", "type again struct {\n	io.ReadCloser\n	d *Driver\n	c *httpstore.Call\n	key string\n	o backends.GetOptions\n	n, left int64\n}\n\nfunc (a *again) Read(p []byte) (int, error) {\n	n, err := a.ReadCloser.Read(p)\n	a.n += int64(n)\n	if err == nil || a.n >= a.left {\n		return n, err\n	}\n	o := a.o\n	o.Range.Offset += a.n\n	if o.Range.Length > 0 {\n		o.Range.Length -= a.n\n	}\n	resp, serr := a.d.send(a.c, request{step: stepGet, method: http.MethodGet, path: a.d.path(\"object\"), query: queryOf(\"key\", a.key), header: getHeader(o)})\n	if serr != nil {\n		return n, err\n	}\n	_ = a.ReadCloser.Close()\n	a.ReadCloser = resp.Body\n	return n, nil\n}\n\nfunc getHeader("),
		in(get, "forgets-if-version", "resume/overwritten-meanwhile", "IfVersion is not sent", "	if opts.IfVersion != \"\" {", "	if len(opts.IfVersion) > 100 {").and(get, "ModTime: modified, Version: h.Get(\"Etag\")", "ModTime: modified.Truncate(24 * time.Hour), Version: \"1\""),
		in(driver, "no-header-timeout", "stall/headers", "the timeout of the answer is not set", "HeaderTimeout: o.ResponseTimeout, ", ""),
		in(driver, "no-stall-timeout", "stall/download-body", "the timeout of a silent stream is not set", "StallTimeout: o.StallTimeout,\n", "\n"),
		in(driver, "no-stall-timeout-up", "stall/upload-body", "the timeout of a silent upload is not set", "StallTimeout: o.StallTimeout,\n", "\n"),
		in("parts/put.go", "abort-fails-silently", "mpu/abort-leaves-nothing/mpu.part", "an upload whose part failed is not removed", "			err = errors.Join(err, u.abort(ctx))\n", "			_ = u.abort\n"),
		in(put, "lost-commit-is-not-mine", "mpu/ambiguous-complete/mpu.commit", "nobody looks whether a commit without an answer was carried out", acmeMine, acmeMine+" && len(u.id) == 0"),
		in("parts/put.go", "doubt-is-success", "mpu/ambiguous-not-committed/mpu.commit", "a commit without an answer counts as done", "	finished = true\n	return u.resolve(ctx, err)", "	finished = true\n	return backends.Info{Size: u.src.n}, nil"),
		in(client, "commit-200-will-do", "mpu/complete-200-error/mpu.commit", "an error under a status of success passes for a commit", "	if err := json.NewDecoder(bytes.NewReader(text)).Decode(into); err != nil {", "	if err := json.NewDecoder(bytes.NewReader(text)).Decode(into); err != nil && resp.StatusCode > 299 {").and(put, "	if out.Size != size || out.CRC32C", "	if out.Size != 0 && out.CRC32C"),
	}
}
