package mutants

import "slices"

// Lines of the example's driver, and of the packages that it is made of, that mutants are about.
const (
	bodyClose = "	b.call.End()\n	_ = b.r.Close() // read side"
	acmeBody  = "	body := resp.Body\n"
)

func httpMutants() []Mutant {
	return slices.Concat(requestMutants(), faultMutants(), retryMutants(), lifeMutants(), tellMutants())
}

func requestMutants() []Mutant {
	const put, get, body, client = "parts/put.go", "acme/get.go", "httpstore/body.go", "acme/client.go"
	return []Mutant{
		in(put, "always-multipart", "put/single-vs-multipart", "a small body is an upload in parts, too", "	if end {\n", "	if end && n < 0 {\n"),
		{ID: "close-drains", Case: "get/early-close", Bug: "Close reads the rest of the stream", Edits: []Edit{{body, bodyClose, "	_, _ = io.Copy(io.Discard, b.r)\n" + bodyClose}}},
		in(body, "close-waits", "get/close-unblocks-read", "Close does not end the request", bodyClose, "	_ = b.r"),
		in(get, "slow-reader-is-a-stall", "get/slow-consumer", "the stall timeout counts while nobody reads", acmeBody, "	time.AfterFunc(d.o.StallTimeout, c.End)\n"+acmeBody),

		in("acme/put.go", "slow-source-is-a-stall", "source/slow", "the stall timeout counts while the body is awaited", "	o := d.partOptions(opts.Size)\n",
			"	ctx, cancel := context.WithTimeout(ctx, d.o.StallTimeout)\n	defer cancel()\n	o := d.partOptions(opts.Size)\n"),
		in(client, "requests-lose-values", "ctx/values-reach-transport", "requests have a context of their own", "	req, err := http.NewRequestWithContext(ctx, r.method",
			"	own, cancel := context.WithCancel(context.Background())\n	context.AfterFunc(ctx, cancel)\n	req, err := http.NewRequestWithContext(own, r.method"),
		in(put, "abort-with-dead-ctx", "ctx/cleanup-detached", "the clean-up runs on the context that has ended", "context.WithTimeout(context.WithoutCancel(ctx), limit/2)", "context.WithTimeout(ctx, limit/2)"),

		{ID: "abort-before-parts-done", Case: "mpu/abort-after-inflight", Bug: "the upload is removed while parts are on their way", Edits: []Edit{
			{put, "			cancel(context.Canceled)\n			u.wg.Wait()\n", "			cancel(context.Canceled)\n"}, {put, "		cancel(err)\n	}\n	u.wg.Wait()\n", "		cancel(err)\n		return backends.Info{}, err\n	}\n	u.wg.Wait()\n"}}},
		in("acme/put.go", "uploads-share-an-id", "mpu/concurrent-uploads-same-key", "the id of an upload follows from its key", "id: hex.EncodeToString(b[:])", "id: hex.EncodeToString([]byte(key))"),
		in(client, "part-retry-resends-rest", "mpu/part-retry-resends-all", "a request that is sent again has only the rest of its body", "		if final || !again || attempt", "		r.body = r.body[len(r.body)/2:]\n		if final || !again || attempt"),
		in("acme/list.go", "hides-foreign-uploads", "mpu/list-and-abort-foreign", "uploads of others are not listed", "	return found, nil", "	return found[:0], nil"),
		in(get, "quotes-versions", "mpu/etag-quirks", "a version has quotes around it when it goes back to the store", `h.Set("If-Match", opts.IfVersion)`, `h.Set("If-Match", strconv.Quote(opts.IfVersion))`),
		{ID: "unbounded-parts", Case: "mpu/parts-concurrent", Bug: "as many parts are sent at a time as memory can be had for", Edits: []Edit{
			{"parts/slabs.go", "most: o.slabs(), base", "most: 1000, base"}}},
	}
}
