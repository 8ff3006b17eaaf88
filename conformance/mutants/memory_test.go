package mutants

import "slices"

// Lines of the memory driver that many mutants are about.
const (
	memDelete = "	d.space.remove(key)\n	return nil\n}\n\n// DeleteMany"
	memRead   = "	n := copy(p, b.rest)\n	b.rest = b.rest[n:]\n	return n, nil"
	memGet    = "	off, length, err := opts.Range.Resolve(o.info.Size)\n	if err != nil {\n		return nil, err\n	}"
	memStat   = "	o, ok := d.space.get(key)\n	if !ok {\n		return backends.Info{}, missing(key)\n	}\n	return o.publicInfo(), nil"
	memPage   = "	infos, more := d.space.page(opts.Prefix, after, n)"
	memBulk   = "	for _, key := range keys {\n		d.space.remove(key)\n	}"
	memStored = "	o, err := d.space.put(key, data, opts, maps.Clone(opts.Meta), d.now())"
	memGather = "	data, err := d.gather(ctx, body, opts, &charged)\n	if err != nil {\n		return backends.Info{}, err\n	}"
	memSum    = "	if opts.CRC32C != nil {\n		if sum"
	memExists = "	if _, exists := d.space.get(key); exists && opts.IfAbsent {"
	memProps  = "		IfAbsent: true, FlatKeys: true, Versions: true, UserMeta: true,"
	memReady  = "	if d.closed.Load() {\n		return backends.Errorf(backends.Closed, \"the driver was closed\")\n	}\n	return ctx.Err()"
	memBody   = "	if b.closed.Load() {\n		return 0, backends.Errorf(backends.Closed, \"read after close\")\n	}"
	memMore   = "		if opts.Size >= 0 && int64(len(data)) > opts.Size {\n			return nil, backends.Errorf(backends.SizeMismatch, \"the body has more than the %d bytes announced\", opts.Size)\n		}\n"
	memLess   = "	if opts.Size >= 0 && int64(len(data)) != opts.Size {\n		return nil, backends.Errorf(backends.SizeMismatch, \"the body has %d bytes, announced were %d\", len(data), opts.Size)\n	}\n"
	memBroken = "		if err != nil {\n			return nil, err\n		}\n	}\n"
	memImport = "import (\n"
)

// in is a mutant of one file.
func in(file, id, kills, bug, old, replacement string) Mutant {
	return Mutant{ID: id, Case: kills, Bug: bug, Edits: []Edit{{file, old, replacement}}}
}

// and is the mutant with one more edit.
func (m Mutant) and(file, old, replacement string) Mutant {
	m.Edits = append(m.Edits, Edit{file, old, replacement})
	return m
}

func memoryMutants() []Mutant {
	return slices.Concat(memoryWrites(), memoryReads(), memoryNames(), memoryLists(), memorySources())
}

func memoryWrites() []Mutant {
	const put, space, driver = "mem/put.go", "mem/space.go", "mem/driver.go"
	return []Mutant{
		in(put, "stores-under-trimmed-key", "put/read-after-write", "the last byte is lost on the way to the store", memStored,
			"	if len(data) > 1 {\n		data = data[:len(data)-1]\n	}\n"+memStored),
		in(put, "empty-is-nothing", "put/zero-byte", "an empty body makes no object", memStored,
			"	if len(data) == 0 {\n		return backends.Info{Key: key}, nil\n	}\n"+memStored),
		in(put, "first-byte-is-zero", "put/one-byte", "the first byte of a body is overwritten", memStored,
			"	if len(data) == 1 {\n		data[0] = 0\n	}\n"+memStored),
		in(put, "splits-at-parts", "put/part-boundaries", "a body that ends at the end of a part loses its last byte", memStored,
			"	if n := len(data); n > 0 && n%(256<<10) == 0 {\n		data = data[:n-1]\n	}\n"+memStored),
		{ID: "text-mode", Case: "put/binary-safe", Bug: "line ends are those of another system", Edits: []Edit{
			{put, memStored, "	data = []byte(strings.ReplaceAll(string(data), \"\\r\\n\", \"\\n\"))\n" + memStored}, {put, memImport, memImport + "	\"strings\"\n"}}},
		in(put, "info-without-version", "put/returns-info", "Put does not return the version", "	return o.publicInfo(), nil\n}\n\n// gather",
			"	i := o.publicInfo()\n	i.Version = \"\"\n	return i, nil\n}\n\n// gather"),
		in(put, "closes-body", "put/does-not-close-body", "Put closes the body, as http.Request does", memGather,
			memGather+"\n	if c, ok := body.(io.Closer); ok {\n		_ = c.Close()\n	}"),
		in(put, "body-read-after-return", "put/does-not-touch-body-after-return", "a goroutine reads ahead, and goes on when Put returns", memGather,
			memGather+"\n	go func() {\n		for range 50 {\n			time.Sleep(100 * time.Microsecond)\n			_, _ = body.Read(make([]byte, 1))\n		}\n	}()").and(put, memImport, memImport+"	\"time\"\n"),
		in(put, "reads-in-two-goroutines", "put/reads-sequentially", "two goroutines read the body at the same time", memGather,
			"	ahead := make(chan struct{})\n	go func() {\n		defer close(ahead)\n		_, _ = body.Read(nil)\n	}()\n"+memGather+"\n	<-ahead"),
		in(put, "zero-read-is-end", "put/tiny-reads", "a Read that brings nothing counts as the end", "		if err == io.EOF {", "		if err == io.EOF || n == 0 && err == nil {"),
		in(put, "drops-meta", "put/meta-roundtrip", "metadata is not stored", memStored, "	o, err := d.space.put(key, data, opts, nil, d.now())"),

		in(put, "appends", "overwrite/replaces", "a shorter object keeps the tail of the one before", memStored,
			"	if old, ok := d.space.get(key); ok && len(old.data) > len(data) {\n		data = append(data, old.data[len(data):]...)\n	}\n"+memStored),
		{ID: "overwrites-in-place", Case: "overwrite/readers-never-mix", Bug: "a reader sees the bytes of the next version", Edits: []Edit{
			{space, "	old, replaces := s.objects[key]\n", "	old, replaces := s.objects[key]\n	if replaces {\n		copy(old.data, data)\n	}\n"},
			{"mem/get.go", "	n := copy(p, b.rest)\n", "	time.Sleep(10 * time.Microsecond) // it would take luck to see it otherwise\n	n := copy(p[:min(len(p), 1000)], b.rest)\n"},
			{"mem/get.go", "	\"sync/atomic\"\n", "	\"sync/atomic\"\n	\"time\"\n"}}},
		in(space, "reader-sees-next-version", "overwrite/reader-in-flight", "a reader sees the bytes of the next version",
			"	old, replaces := s.objects[key]\n", "	old, replaces := s.objects[key]\n	if replaces {\n		copy(old.data, data)\n	}\n"),
		in(put, "commit-on-source-error", "atomic/failed-put-keeps-old", "what had arrived before the body failed becomes the object", memGather,
			"	data, err := d.gather(ctx, body, opts, &charged)\n	if err != nil {\n		_, _ = d.space.put(key, []byte(\"half\"), opts, nil, d.now())\n		return backends.Info{}, err\n	}"),
		in(put, "visible-while-written", "atomic/invisible-until-return", "the object is there before its body is", memGather,
			"	_, _ = d.space.put(key, nil, opts, nil, d.now())\n"+memGather),

		{ID: "ifabsent-overwrites", Case: "ifabsent/refuses", Bug: "IfAbsent is not looked at", Edits: []Edit{
			{space, "	if replaces && opts.IfAbsent {", "	if replaces && opts.IfAbsent && len(key) > 2000 {"}, {put, memExists, memExists[:len(memExists)-2] + " && len(key) > 2000 {"}}},
		in(space, "ifabsent-check-then-put", "ifabsent/race", "IfAbsent is checked, and then the object is put", "	if replaces && opts.IfAbsent {", "	if replaces && opts.IfAbsent && len(key) > 2000 {"),
		in(put, "ifabsent-refuses-all", "ifabsent/creates", "IfAbsent refuses a key that is not there", memExists, "	if opts.IfAbsent {"),
		{ID: "ifabsent-remembers", Case: "ifabsent/after-delete", Bug: "a deleted key counts as there", Edits: []Edit{
			{space, "	delete(s.objects, key)\n", "	delete(s.objects, key)\n	if s.gone == nil {\n		s.gone = make(map[string]bool)\n	}\n	s.gone[key] = true\n"},
			{space, "	versions uint64\n", "	versions uint64\n	gone     map[string]bool\n"},
			{space, "	if replaces && opts.IfAbsent {", "	if (replaces || s.gone[key]) && opts.IfAbsent {"}}},

		in(driver, "delete-does-nothing", "delete/removes", "Delete answers and deletes nothing", memDelete, "	return nil\n}\n\n// DeleteMany"),
		in(driver, "delete-missing-is-error", "delete/idempotent", "the second Delete of a key is an error", memDelete,
			"	if _, ok := d.space.get(key); !ok {\n		return missing(key)\n	}\n"+memDelete),
		{ID: "delete-is-recursive", Case: "delete/only-that-key", Bug: "Delete takes everything below the key along", Edits: []Edit{
			{driver, memDelete, "	infos, _ := d.space.page(key+\"/\", \"\", 1000)\n	for _, i := range infos {\n		d.space.remove(i.Key)\n	}\n" + memDelete}}},
		{ID: "delete-leaves-a-marker", Case: "delete/then-put", Bug: "a key that was deleted cannot be stored again", Edits: []Edit{
			{space, "	delete(s.objects, key)\n", "	delete(s.objects, key)\n	if s.gone == nil {\n		s.gone = make(map[string]bool)\n	}\n	s.gone[key] = true\n"},
			{space, "	versions uint64\n", "	versions uint64\n	gone     map[string]bool\n"},
			{space, "	s.versions++\n", "	s.versions++\n	if s.gone[key] {\n		data = nil\n	}\n"}}},
		in(space, "delete-wipes-bytes", "delete/during-read", "Delete wipes the bytes that a reader still has", "	delete(s.objects, key)\n", "	delete(s.objects, key)\n	clear(o.data)\n"),

		in(driver, "bulk-skips-last", "bulk/all", "the last key of a bulk delete stays", memBulk, "	for _, key := range keys[:max(0, len(keys)-1)] {\n		d.space.remove(key)\n	}"),
		in(driver, "bulk-missing-fails", "bulk/with-missing", "a missing key fails the bulk delete", memBulk,
			"	for _, key := range keys {\n		if _, ok := d.space.get(key); !ok {\n			return missing(key)\n		}\n		d.space.remove(key)\n	}"),
		in(driver, "bulk-of-none-fails", "bulk/empty-list", "a bulk delete of no keys is an error", "	if len(keys) > maxBulkDelete {", "	if len(keys) == 0 || len(keys) > maxBulkDelete {"),
		{ID: "bulk-by-name", Case: "bulk/hostile-keys", Bug: "keys are escaped for a document and not unescaped", Edits: []Edit{
			{driver, memBulk, "	for _, key := range keys {\n		d.space.remove(html.EscapeString(key))\n	}"}, {driver, memImport, memImport + "	\"html\"\n"}}},
		in(driver, "full-bulk-does-nothing", "bulk/over-limit", "a request with as many keys as possible is answered and not carried out", memBulk, "	if len(keys) == maxBulkDelete {\n		return nil\n	}\n"+memBulk),
	}
}

func memoryReads() []Mutant {
	const get, driver = "mem/get.go", "mem/driver.go"
	return []Mutant{
		in(get, "whole-loses-last-byte", "get/whole", "a whole read is one byte short", memGet, memGet+"\n	if off == 0 && length == o.info.Size && length > 0 {\n		length--\n	}"),
		in(get, "range-off-by-one", "get/middle", "a range starts one byte late", memGet, memGet+"\n	if off > 0 && off+length < o.info.Size {\n		off++\n	}"),
		in(get, "range-end-is-exclusive", "get/last-byte", "the last byte of an object cannot be read", memGet, memGet+"\n	if off == o.info.Size-1 {\n		length = 0\n	}"),
		in(get, "first-byte-is-all", "get/first-byte", "a range at 0 reads everything", memGet, memGet+"\n	if off == 0 {\n		length = o.info.Size\n	}"),
		in(get, "to-end-is-nothing", "get/to-end", "a negative length other than -1 reads nothing", memGet, memGet+"\n	if opts.Range.Length < -1 {\n		length = 0\n	}"),
		in(get, "past-end-is-error", "get/range-past-end-clipped", "a range that ends behind the object is refused", memGet,
			memGet+"\n	if opts.Range.Length > 0 && off+opts.Range.Length > o.info.Size {\n		return nil, backends.InvalidRange\n	}"),
		in(get, "at-size-is-empty", "get/offset-at-size", "a range at the end reads as empty", memGet,
			"	if opts.Range.Offset == o.info.Size && opts.Range.Offset > 0 {\n		opts.Range.Offset, opts.Range.Length = 0, 1\n	}\n"+memGet),
		in(get, "416-as-notfound", "get/offset-beyond-size", "a range behind the object is NotFound", memGet,
			"	off, length, err := opts.Range.Resolve(o.info.Size)\n	if err != nil {\n		return nil, missing(key)\n	}"),
		in(get, "empty-is-bad-range", "get/empty-object", "an empty object cannot be read", memGet, "	if o.info.Size == 0 {\n		return nil, backends.InvalidRange\n	}\n"+memGet),
		in(get, "32-bit-offsets", "get/offset-int64", "offsets have 32 bits", memGet, "	opts.Range.Offset = int64(uint32(opts.Range.Offset))\n"+memGet),
		in(get, "missing-fails-late", "get/missing", "a missing key is found out by the first Read", "	if !ok {\n		return nil, missing(key)\n	}",
			"	if !ok {\n		return &backends.Object{Body: io.NopCloser(io.MultiReader()), Info: backends.Info{Key: key}}, nil\n	}"),
		in(get, "missing-range-is-bad", "get/missing-range", "a range of a missing key is InvalidRange", "	if !ok {\n		return nil, missing(key)\n	}",
			"	if !ok && opts.Range.Length > 0 {\n		return nil, backends.InvalidRange\n	}\n	if !ok {\n		return nil, missing(key)\n	}"),
		in(get, "empty-read-is-end", "get/iotest", "a Read of no bytes returns io.EOF", memRead, "	if len(p) == 0 {\n		return 0, io.EOF\n	}\n"+memRead),
		in(get, "delivers-too-much", "get/exact-length", "the body goes on behind the range", "o.data[off : off+length]}", "o.data[off:]}"),
		in(get, "rounds-offsets", "get/random-ranges", "offsets are rounded down to 16 bytes", memGet, memGet+"\n	if off > 1000 {\n		off &^= 15\n	}"),
		in(get, "chunks-overlap", "get/aligned-chunks", "a range that starts at a multiple of 512 starts a byte early", memGet, memGet+"\n	if off > 0 && off >= 4<<20 {\n		off--\n	}"),
		{ID: "shares-a-position", Case: "get/parallel", Bug: "readers of one object share their position", Edits: []Edit{
			{get, memRead, "	b.o.pos = (b.o.pos + 1) % 7\n	n := copy(p, b.rest[min(b.o.pos, len(b.rest)):])\n	b.rest = b.rest[min(n+b.o.pos, len(b.rest)):]\n	return n, nil"},
			{get, "	rest   []byte\n", "	rest   []byte\n	o      *object\n"}, {get, "&body{d: d, ", "&body{o: o, d: d, "}, {"mem/space.go", "	data []byte\n}", "	data []byte\n	pos  int\n}"}}},
		in(get, "second-close-fails", "get/double-close", "the second Close is an error", "	b.closed.Store(true)\n	return nil", "	if b.closed.Swap(true) {\n		return backends.Closed\n	}\n	return nil"),
		in(get, "reads-when-closed", "get/read-after-close", "a body can be read after Close", memBody, "	if len(b.rest) > 1<<40 {\n		return 0, backends.Closed\n	}"),
		in(get, "size-of-range", "get/info", "Info.Size of a range is that of the range", "Info: o.publicInfo(), Offset: off, Length: length,\n	}, nil", "Info: sized(o.publicInfo(), length), Offset: off, Length: length,\n	}, nil\n}\n\nfunc sized(i backends.Info, n int64) backends.Info {\n	i.Size = n\n	return i"),
		in(get, "ignores-if-version", "get/if-version", "IfVersion is not looked at", "	if opts.IfVersion != \"\" && ", "	if len(opts.IfVersion) > 100 && "),
		{ID: "unzips", Case: "get/no-transparent-decompression", Bug: "what looks like gzip is decompressed", Edits: []Edit{
			{get, memGet, memGet + "\n	if r, err := gzip.NewReader(bytes.NewReader(o.data)); err == nil {\n		if text, err := io.ReadAll(r); err == nil {\n			return &backends.Object{Body: &body{d: d, ctx: ctx, rest: text}, Info: o.publicInfo(), Length: int64(len(text))}, nil\n		}\n	}"},
			{get, memImport, memImport + "	\"bytes\"\n	\"compress/gzip\"\n"}}},

		in(driver, "stat-without-meta", "stat/basic", "Stat does not return the metadata", memStat, memStat[:len(memStat)-len("	return o.publicInfo(), nil")]+"	i := o.publicInfo()\n	i.Meta = nil\n	return i, nil"),
		in(driver, "403-as-notfound", "stat/missing", "a missing key is Denied", "	return backends.Errorf(backends.NotFound, \"there is no object %q\", key)", "	return backends.Errorf(backends.Denied, \"there is no object %q\", key)"),
		in(driver, "stat-finds-directories", "stat/dir-like", "a key that is the directory of another one is there", memStat,
			"	if infos, _ := d.space.page(key+\"/\", \"\", 1); len(infos) > 0 {\n		return backends.Info{Key: key}, nil\n	}\n"+memStat),
		in("mem/space.go", "modtime-is-zero", "stat/modtime", "objects have no time", "ModTime: now,", "ModTime: now.Add(-1000 * time.Hour),"),
	}
}
