package mutants

// tellMutants are about what errors tell, and what they must not.
func tellMutants() []Mutant {
	const errs, token, put, config = "acme/errors.go", "acme/token.go", "acme/put.go", "acme/config.go"
	const asked = "json: in, decode: &out})\n"
	return []Mutant{
		in(errs, "slow-down-is-unavailable", "err/codes", "being throttled looks like being down", `"slow_down": backends.Throttled`, `"slow_down": backends.Unavailable`),
		in(errs, "drops-the-request-id", "err/has-request-id-status", "the id of a request is not kept", `RequestID: resp.Header.Get("Acme-Request-Id"), `, ""),
		in(errs, "drops-the-cause", "err/wrapped-once", "what the network said is not kept", "	return &backends.Error{Code: code, Err: err}", "	return &backends.Error{Code: code}"),
		in(errs, "slow-down-is-for-ever", "err/temporary", "being throttled counts as final", `"slow_down": backends.Throttled`, `"slow_down": backends.Denied`),
		in(errs, "reads-every-error", "err/body-not-xml", "all of an error is read, however long", "= 64 << 10", "= 64 << 20").and("httpstore/transport.go", "= 64 << 10", "= 64 << 20"),
		in(token, "quotes-its-request", "err/no-secrets", "the error of a token request quotes the request", asked, asked+"	if err != nil {\n		err = backends.Errorf(backends.CodeOf(err), \"token for %v: %w\", in, err)\n	}\n"),
		in(put, "sends-no-checksum", "sum/upload-corrupted-in-flight", "a body has no checksum on its way", "	h.Set(\"Acme-Crc32c\", checksum(p.CRC32C))\n", "").and(put, " || out.CRC32C != checksum(sum) {", " {"),
		in(put, "parts-have-no-header", "sum/modes", "parts are sent without their checksum", "		header: http.Header{\"Acme-Crc32c\": {checksum(p.CRC32C)}},\n", ""),
		in("parts/put.go", "full-is-exhausted", "put/too-many-parts", "a body with too many parts looks like a full store", `backends.Errorf(backends.InvalidArgument, "the body does not fit`, `backends.Errorf(backends.Exhausted, "the body does not fit`),

		in(config, "works-without-a-key", "cred/none", "a driver without credentials opens, and asks for a token with nothing", `case o.CredentialsFile == "" && (o.KeyID == ""`, `case o.CredentialsFile == "?" && (o.KeyID == ""`),
		in(token, "renews-once-a-call", "cred/expired-refreshes", "calls that wait for a token do not wait for one another", "make(chan struct{}, 1)", "make(chan struct{}, 64)"),
		in(token, "renews-far-ahead", "cred/refresh-fails", "a token that holds for less than two minutes is renewed by every call", "t.now().Add(life-life/10)", "t.now().Add(life-2*time.Minute)"),
		in(token, "keeps-the-first-key", "cred/rotated-file", "the file with the key is read once", "	return k, nil\n", "	d.o.KeyID, d.o.Secret, d.o.CredentialsFile = k.ID, backends.NewSecret(k.Secret), \"\"\n	return k, nil\n"),
		in(errs, "denied-is-a-wrong-key", "cred/denied-write-allowed-read", "a missing permission looks like wrong credentials", `"denied": backends.Denied`, `"denied": backends.Unauthenticated`),
		in("acme/get.go", "compares-nothing", "sum/download-corrupted", "the checksum of an object that is read is not compared", "checksum(v.sum) != v.want", "v.want == \"\""),
	}
}
