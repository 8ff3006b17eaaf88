package mutants

// Lines of the example's driver, and of the packages that it is made of, that mutants are about.
const (
	bodyClose = "	b.call.End()\n	_ = b.r.Close() // read side"
	acmeBody  = "	body := resp.Body\n"
)

func httpMutants() []Mutant {
	const put, get, body = "parts/put.go", "acme/get.go", "httpstore/body.go"
	return []Mutant{
		in(put, "always-multipart", "put/single-vs-multipart", "a small body is an upload in parts, too", "	if end {\n", "	if end && n < 0 {\n"),
		{ID: "close-drains", Case: "get/early-close", Bug: "Close reads the rest of the stream", Edits: []Edit{{body, bodyClose, "	_, _ = io.Copy(io.Discard, b.r)\n" + bodyClose}}},
		in(body, "close-waits", "get/close-unblocks-read", "Close does not end the request", bodyClose, "	_ = b.r"),
		in(get, "slow-reader-is-a-stall", "get/slow-consumer", "the stall timeout counts while nobody reads", acmeBody, "	time.AfterFunc(d.o.StallTimeout, c.End)\n"+acmeBody),
	}
}
