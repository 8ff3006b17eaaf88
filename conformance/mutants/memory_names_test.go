package mutants

// The places where a key comes into a Space.
const (
	keyIntoGet    = "func (s *Space) get(key string) (*object, bool) {\n"
	keyIntoPut    = "func (s *Space) put(key string, data []byte, opts backends.PutOptions, meta map[string]string, now time.Time) (*object, error) {\n"
	keyIntoRemove = "func (s *Space) remove(key string) {\n"
)

// mangles is a store that does something to keys on their way in.
func mangles(id, kills, bug, does string, imports ...string) Mutant {
	const space = "mem/space.go"
	m := Mutant{ID: id, Case: kills, Bug: bug, Edits: []Edit{
		{space, keyIntoGet, keyIntoGet + "	key = mangled(key)\n"}, {space, keyIntoPut, keyIntoPut + "	key = mangled(key)\n"},
		{space, keyIntoRemove, "func mangled(key string) string {\n	" + does + "\n	return key\n}\n\n" + keyIntoRemove + "	key = mangled(key)\n"},
	}}
	for _, i := range imports {
		m.Edits = append(m.Edits, Edit{space, "	\"slices\"\n", "	\"slices\"\n	\"" + i + "\"\n"})
	}
	return m
}

func memoryNames() []Mutant {
	return []Mutant{
		mangles("cuts-long-keys", "keys/kafka-shape", "keys of more than 255 bytes are cut", "key = key[:min(len(key), 255)]"),
		mangles("drops-combining-marks", "keys/unicode", "combining marks get lost", "key = strings.Map(func(r rune) rune {\n		if unicode.Is(unicode.Mn, r) {\n			return -1\n		}\n		return r\n	}, key)", "unicode"),
		mangles("unescapes-keys", "keys/space-plus-percent", "keys are unescaped once too often", "if k, err := url.QueryUnescape(key); err == nil {\n		key = k\n	}", "net/url"),
		mangles("cuts-at-question-mark", "keys/url-special", "a key ends at its question mark, as a path does", "key, _, _ = strings.Cut(key, \"?\")"),
		mangles("blanks-control-chars", "keys/control-chars", "control characters become spaces", "key = strings.Map(func(r rune) rune {\n		if r < ' ' {\n			return ' '\n		}\n		return r\n	}, key)"),
		mangles("backslash-is-slash", "keys/backslash", "a backslash becomes a slash", "key = strings.ReplaceAll(key, `\\`, \"/\")"),
		mangles("folds-slashes", "keys/double-slash", "two slashes become one", "key = strings.ReplaceAll(key, \"//\", \"/\")"),
		mangles("resolves-dots", "keys/dot-segments", "the segments . and .. are resolved", "if strings.Contains(key, \"./\") {\n		key = path.Clean(key)\n	}", "path"),
		mangles("drops-last-slash", "keys/trailing-slash", "a slash at the end gets lost", "key = strings.TrimSuffix(key, \"/\")"),
		mangles("drops-last-dot", "keys/trailing-dot", "a dot at the end gets lost", "key = strings.TrimSuffix(key, \".\")"),
		mangles("trims-spaces", "keys/trailing-space", "spaces at the ends get lost", "key = strings.TrimSpace(key)"),
		mangles("folds-case", "keys/case", "upper case becomes lower case", "key = strings.ToLower(key)"),
		mangles("renames-devices", "keys/windows-reserved", "names of devices get an underscore", "key = strings.ReplaceAll(key, \"CON\", \"CON_\")"),
		mangles("cuts-the-longest-key", "keys/max-length", "the last byte of the longest key gets lost", "key = key[:min(len(key), maxKeyBytes-1)]"),
		in("mem/space.go", "has-directories", "keys/prefix-of-another", "a key below an object is refused", "	old, replaces := s.objects[key]\n",
			"	for i := range key {\n		if _, there := s.objects[key[:i]]; there && key[i] == '/' {\n			return nil, backends.InvalidArgument\n		}\n	}\n	old, replaces := s.objects[key]\n"),
		in("mem/space.go", "hides-temp-names", "keys/looks-like-temp", "keys that end like temp files are not listed", "		if s.keys[i] == after {",
			"		if s.keys[i] == after || strings.HasSuffix(s.keys[i], \".tmp\") {"),
	}
}
