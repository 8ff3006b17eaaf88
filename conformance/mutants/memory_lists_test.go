package mutants

import "strings"

// The listing of the memory driver.
const (
	listEnter = "func (d *Driver) List(ctx context.Context, opts backends.ListOptions) (backends.Page, error) {\n	if err := d.ready(ctx); err != nil {"
	listToken = "	after, err := backends.ParseAfterKey(opts.Token, opts.Prefix)\n	if err != nil {\n		return backends.Page{}, err\n	}\n"
	listPage  = "	page := backends.Page{Infos: infos}\n"
	listNext  = "		page.Next = backends.AfterKey(infos[len(infos)-1].Key)"
	driverOf  = "	closed   atomic.Bool\n}"
)

// cached is a driver that keeps listings, until stale changes.
func cached(id, kills, bug, stale string) Mutant {
	const driver = "mem/driver.go"
	return Mutant{ID: id, Case: kills, Bug: bug, Edits: []Edit{
		{driver, driverOf, "	closed   atomic.Bool\n}\n\nvar kept sync.Map\n\ntype keptPage struct {\n	page backends.Page\n	state any\n}\n\ntype keptKey struct {\n	s *Space\n	o backends.ListOptions\n}\n"},
		{driver, "	\"sync/atomic\"\n", "	\"sync\"\n	\"sync/atomic\"\n"},
		{driver, listToken, "	d.space.mu.Lock()\n	state := any(" + stale + ")\n	d.space.mu.Unlock()\n	if k, ok := kept.Load(keptKey{d.space, opts}); ok && k.(keptPage).state == state {\n		return k.(keptPage).page, nil\n	}\n" + listToken},
		{driver, "	return page, nil\n", "	kept.Store(keptKey{d.space, opts}, keptPage{page, state})\n	return page, nil\n"},
	}}
}

func memoryLists() []Mutant {
	const driver, space = "mem/driver.go", "mem/space.go"
	return []Mutant{
		in(driver, "nothing-is-notfound", "list/empty-prefix-namespace", "the listing of an empty place is NotFound", listPage,
			"	if len(infos) == 0 && opts.Token == \"\" {\n		return backends.Page{}, backends.NotFound\n	}\n"+listPage),
		{ID: "list-order-by-utf16", Case: "list/sorted-bytewise", Bug: "keys are sorted as Java sorts strings", Edits: []Edit{
			{driver, listPage, "	slices.SortFunc(infos, func(a, b backends.Info) int {\n		return slices.Compare(utf16.Encode([]rune(a.Key)), utf16.Encode([]rune(b.Key)))\n	})\n" + listPage},
			{driver, "	\"sync/atomic\"\n	\"time\"\n", "	\"slices\"\n	\"sync/atomic\"\n	\"time\"\n	\"unicode/utf16\"\n"}}},
		in(space, "prefix-is-a-path", "list/prefix", "a prefix is a directory", "		if s.keys[i] == after {",
			"		if rest := s.keys[i][len(prefix):]; s.keys[i] == after || prefix != \"\" && !strings.HasSuffix(prefix, \"/\") && rest != \"\" && rest[0] != '/' {"),
		in(driver, "list-skips-at-page-edge", "list/page-sizes", "the last key of a page is on none", listPage,
			"	page := backends.Page{Infos: infos}\n	if more && len(infos) > 1 {\n		page.Infos = infos[:len(infos)-1]\n	}\n"),
		in(driver, "one-page-is-all", "list/3000-keys", "what does not fit the largest page is not listed", listPage, "	more = more && n < pageSize\n"+listPage),
		{ID: "token-is-a-number", Case: "list/insert-before-token", Bug: "pages are counted", Edits: []Edit{
			{driver, listToken, "	skip, _ := strconv.Atoi(opts.Token)\n	after := \"\"\n"},
			{driver, memPage, "	infos, more := d.space.page(opts.Prefix, after, skip+n)\n	infos = infos[min(skip, len(infos)):]"},
			{driver, listNext, "		page.Next = strconv.Itoa(skip + len(infos))"}}},
		{ID: "listing-ends-when-changed", Case: "list/insert-after-token", Bug: "a token is valid until something is stored", Edits: []Edit{
			{driver, listToken, "	token, state, _ := strings.Cut(opts.Token, \":\")\n	if opts.Token = token; token != \"\" && state != version(d.space.versions) {\n		return backends.Page{}, backends.InvalidArgument\n	}\n" + listToken},
			{driver, listNext, listNext + " + \":\" + version(d.space.versions)"}, {driver, "	\"sync/atomic\"\n", "	\"strings\"\n	\"sync/atomic\"\n"}}},
		in(driver, "token-must-be-there", "list/delete-token-key", "a listing cannot go on behind a key that was deleted", memPage,
			"	if _, there := d.space.get(after); after != \"\" && !there {\n		return backends.Page{}, backends.InvalidArgument\n	}\n"+memPage),
		cached("listing-is-old-after-put", "list/after-put", "a listing is kept until something is deleted", "0"),
		cached("listing-is-old-after-delete", "list/after-delete", "a listing is kept until something is stored", "d.space.versions"),
		cached("listing-is-old-after-overwrite", "list/after-overwrite", "a listing is kept until the number of objects changes", "len(d.space.keys)"),
		in("mem/put.go", "temp-visible-in-list", "list/hides-pending", "what is being written is listed under a temporary name", memGather,
			"	_, _ = d.space.put(key+\".part\", nil, backends.PutOptions{}, nil, d.now())\n	defer d.space.remove(key + \".part\")\n"+memGather),
		in(driver, "list-ignores-ctx", "list/cancel", "List does not look at its context", listEnter,
			"func (d *Driver) List(ctx context.Context, opts backends.ListOptions) (backends.Page, error) {\n	if err := d.ready(context.WithoutCancel(ctx)); err != nil {"),
		in(space, "list-without-size", "list/size-and-modtime", "listings do not tell the size", "		info.Meta = nil\n", "		info.Meta = nil\n		info.Size = 0\n"),
		in(driver, "takes-any-token", "list/bad-token", "a token that is none begins at the start", listToken, "	after, _ := backends.ParseAfterKey(opts.Token, opts.Prefix)\n"),
	}
}

func memorySources() []Mutant {
	const put, get, driver = "mem/put.go", "mem/get.go", "mem/driver.go"
	const ready = "	return ctx.Err()\n}\n\n// Stat"
	swallow := func(id, kills, when string) Mutant {
		return in(put, id, kills, "an error of the body counts as its end", "		if err == io.EOF {", "		if err == io.EOF || err != nil && "+when+" {")
	}
	return []Mutant{
		swallow("swallows-first-error", "source/error-at-0", "len(data) == 0"),
		swallow("swallows-error-in-part", "source/error-in-part-1", "len(data)%1000 != 0 && opts.Size < 0"),
		swallow("swallows-error-between-parts", "source/error-at-part-boundary", "len(data) > 0 && len(data)%(256<<10) == 0"),
		swallow("swallows-last-error", "source/error-at-last-byte", "int64(len(data)) == opts.Size"),
		in(put, "swallows-mismatch", "source/short", "a body that is too short is stored as it is", memLess, ""),
		{ID: "stores-what-comes", Case: "source/long", Bug: "a body that is too long is stored as it is", Edits: []Edit{
			{put, memMore, ""}, {put, memLess, strings.Replace(memLess, "!= opts.Size", "< opts.Size", 1)}}},
		in(put, "recovers-from-panics", "source/panic", "a panic of the body becomes an error", "		n, err := body.Read(data[len(data):min(cap(data), len(data)+step)])\n",
			"		n, err := func() (n int, err error) {\n			defer func() {\n				if recover() != nil {\n					err = io.ErrUnexpectedEOF\n				}\n			}()\n			return body.Read(data[len(data):min(cap(data), len(data)+step)])\n		}()\n"),

		in(driver, "ignores-dead-ctx", "ctx/dead-on-entry", "no method looks at its context", ready, "	return nil\n}\n\n// Stat"),
		in(driver, "deadline-is-a-timeout", "ctx/deadline-on-entry", "the caller's deadline is reported as a timeout of the store", ready,
			"	if ctx.Err() == context.DeadlineExceeded {\n		return backends.Timeout\n	}\n	return ctx.Err()\n}\n\n// Stat"),
		{ID: "put-forgets-ctx", Case: "ctx/cancel-while-body-blocks", Bug: "Put looks at its context only when it begins", Edits: []Edit{
			{put, "		if err := d.ready(ctx); err != nil {\n			return nil, err\n		}\n", ""},
			{put, "	if err := d.ready(ctx); err != nil {\n		return backends.Info{}, err\n	}\n	o, err :=", "	o, err :="}}},
		in(get, "stream-forgets-ctx", "ctx/ends-a-read", "an open stream does not end with its context", "	if err := b.d.ready(b.ctx); err != nil {", "	if err := b.d.ready(context.WithoutCancel(b.ctx)); err != nil {"),

		{ID: "one-buffer-for-all", Case: "conc/64-keys-mixed", Bug: "Puts of one client share a buffer", Edits: []Edit{
			{put, "	data := make([]byte, 0, step)\n", "	if d.buf == nil {\n		d.buf = make([]byte, 0, 1<<20)\n	}\n	data := d.buf\n"},
			{driver, driverOf, "	closed   atomic.Bool\n	buf      []byte\n}"}}},
		{ID: "one-lock-for-all", Case: "conc/one-client-many-goroutines", Bug: "a Put keeps a lock while it reads its body", Edits: []Edit{
			{put, memGather, "	d.lock.Lock()\n	defer d.lock.Unlock()\n" + memGather},
			{get, memGet, "	d.lock.Lock()\n	defer d.lock.Unlock()\n" + memGet},
			{driver, driverOf, "	closed   atomic.Bool\n	lock     sync.Mutex\n}"}, {driver, "	\"sync/atomic\"\n", "	\"sync\"\n	\"sync/atomic\"\n"}}},
	}
}
