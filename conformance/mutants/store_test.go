package mutants

import (
	"os"
	"path"
	"path/filepath"
	"strings"
)

// switched is a bug in a package that every driver has in common: the Store, the settings, the connections. All of them are in the one program, and each is
// only there when the environment names it: see mutantSwitch.
func switched(on, file, id, kills, bug, old, replacement string) Mutant {
	m := in(file, id, kills, bug, old, replacement)
	m.On = on
	return m
}

// mutantSwitch is added to each of these packages. In the lines of a mutant, mutant is the name of the one that runs.
const mutantSwitch = "\n\nimport \"os\"\n\nvar mutant = os.Getenv(\"TIERKIT_MUTANT\")\n"

// common tells where the packages are that have switched mutants.
func common() map[string]string {
	return map[string]string{"backends": "backends", "settings": "internal/settings", "transport": "internal/transport"}
}

// inPlace puts switched mutants into the packages themselves.
func (o *overlay) inPlace(all []Mutant) {
	o.t.Helper()
	texts := map[string]string{}
	for _, m := range all {
		for _, e := range m.Edits {
			if m.On == "" {
				continue
			}
			pkg, base, _ := strings.Cut(e.File, "/")
			file := path.Join(common()[pkg], base)
			if texts[file] == "" {
				data, err := os.ReadFile(filepath.Join(o.root, filepath.FromSlash(file)))
				if err != nil {
					o.t.Fatal(err)
				}
				texts[file] = string(data)
			}
			texts[file] = o.replaced(texts[file], m.ID, e)
		}
	}
	for file, text := range texts {
		o.add(file, text)
	}
	for pkg, dir := range common() {
		o.add(path.Join(dir, "mutant_switch.go"), "package "+pkg+mutantSwitch)
	}
}

func storeMutants() []Mutant {
	const keys, get, bulk, list, limits, body, wrap, mask = "backends/keys.go", "backends/get.go", "backends/bulk.go", "backends/list.go", "backends/limits.go", "backends/body.go", "backends/wrap.go", "backends/mask.go"
	const parse, secret, network = "settings/parse.go", "settings/secret.go", "transport/transport.go"
	return []Mutant{
		switched(cleanMemory, keys, "negative-goes-through", "get/negative-offset", "a negative offset is not refused", "	case o.Range.Offset < 0:\n", "	case o.Range.Offset < 0 && mutant != \"negative-goes-through\":\n"),
		switched(cleanHTTP, get, "asks-for-nothing", "get/zero-length", "the store is asked for no bytes", "		if opts.Range.Length == 0 {\n", "		if opts.Range.Length == 0 && mutant != \"asks-for-nothing\" {\n"),
		switched(cleanMemory, bulk, "refuses-repeats", "bulk/duplicates", "a key that is named twice is an error", "	for _, key := range keys {\n		if err := s.refuse(key)",
			"	if named := len(keys); mutant == \"refuses-repeats\" && named == 2 {\n		return Errorf(InvalidArgument, \"a key is named twice\")\n	}\n	for _, key := range keys {\n		if err := s.refuse(key)"),
		switched(cleanMemory, bulk, "names-no-keys", "bulk/cancel-midway", "the end of the context is told without the keys that are left", "errors.Join(ctx.Err(), bulk)", "map[bool]error{false: errors.Join(ctx.Err(), bulk), true: ctx.Err()}[mutant == \"names-no-keys\"]"),
		switched(cleanMemory, list, "does-not-stop", "list/stop", "the loop goes on after its body has ended", "				if !yield(info, nil) {\n", "				if !yield(info, nil) && mutant != \"does-not-stop\" {\n"),
		switched(cleanMemory, keys, "takes-any-bytes", "keys/invalid-utf8", "keys that are no UTF-8 are taken", "	if !utf8.ValidString(s) {\n", "	if !utf8.ValidString(s) && mutant != \"takes-any-bytes\" {\n"),
		switched(cleanMemory, keys, "takes-nul", "keys/nul", "keys with a NUL byte are taken", "strings.IndexByte(s, 0) >= 0 {", "strings.IndexByte(s, 0) >= 0 && mutant != \"takes-nul\" {"),
		switched(cleanMemory, keys, "takes-the-empty-key", "keys/empty", "the empty key is taken", "	if key == \"\" {\n", "	if key == \"\" && mutant != \"takes-the-empty-key\" {\n"),
		switched(cleanMemory, keys, "takes-any-size", "put/too-large", "objects are taken that cannot be", "	case p.MaxObjectBytes > 0 && ", "	case p.MaxObjectBytes > 0 && mutant != \"takes-any-size\" && "),
		switched(cleanMemory, limits, "waits-for-its-turn", "ctx/cancel-waiting-for-limits", "who waits for a slot does not look at its context", "	case <-turn:\n		return nil\n	case <-ctx.Done():\n", "	case <-turn:\n		return nil\n	case <-map[bool]<-chan struct{}{false: ctx.Done()}[mutant == \"waits-for-its-turn\"]:\n"),
		switched(cleanMemory, wrap, "forgets-the-cause", "ctx/cause", "the cause of a context's end is not told", "why != nil && !errors.Is(caller.Err(), why) {", "why != nil && !errors.Is(caller.Err(), why) && mutant != \"forgets-the-cause\" {"),
		switched(cleanHTTP, body, "resumes-for-ever", "resume/flapping", "a stream is opened again without an end", "		if b.stalled >= resumeStalled || ", "		if mutant == \"resumes-for-ever\" {\n			b.stalled = 0\n		} else if b.stalled >= resumeStalled || "),
		switched(cleanHTTP, body, "progress-does-not-count", "resume/progress-resets", "bytes that came do not count for what may still break", "	b.stalled = 0\n	b.mu.Lock()", "	if mutant != \"progress-does-not-count\" {\n		b.stalled = 0\n	}\n	b.mu.Lock()"),
		switched(cleanHTTP, mask, "masks-nothing", "err/masked-prefix", "the prefix is shown", "	for _, form := range m.forms {\n		s = replaceWords", "	for _, form := range m.forms {\n		if mutant == \"masks-nothing\" {\n			break\n		}\n		s = replaceWords"),
		switched(cleanHTTP, parse, "swallows-the-unknown", "config/unknown-key", "settings that nobody knows are passed over", "	pr := &Problem{Key: p.o.Prefix + key, Unknown: true", "	if mutant == \"swallows-the-unknown\" {\n		return\n	}\n	pr := &Problem{Key: p.o.Prefix + key, Unknown: true"),
		switched(cleanHTTP, parse, "nothing-is-required", "config/missing", "a required setting may be missing", "	if !given && s.Required {", "	if !given && s.Required && mutant != \"nothing-is-required\" {"),
		switched(cleanHTTP, parse, "one-mistake-at-a-time", "config/all-errors-at-once", "only the first mistake is told", "	return p.values, joinProblems(p.problems)\n", "	if mutant == \"one-mistake-at-a-time\" {\n		p.problems = p.problems[:min(len(p.problems), 1)]\n	}\n	return p.values, joinProblems(p.problems)\n"),
		switched(cleanHTTP, secret, "keeps-the-reference", "config/secret-sources", "file:PATH is taken for the secret itself", "	case strings.HasPrefix(text, \"file:\"):", "	case strings.HasPrefix(text, \"file:\") && mutant != \"keeps-the-reference\":"),
		switched(cleanHTTP, network, "knows-no-proxy", "net/proxy-env", "what the environment says about proxies is not asked", "	proxy := http.ProxyFromEnvironment\n", "	proxy := http.ProxyFromEnvironment\n	if mutant == \"knows-no-proxy\" {\n		proxy = nil\n	}\n"),
	}
}

// chanceMutants are for cases that find by chance what others are named for: each of these cannot be missed.
func chanceMutants() []Mutant {
	return []Mutant{
		in("mem/driver.go", "deletes-nothing", "model/rapid", "a deleted object is still there", memDelete, "	return nil\n}\n\n// DeleteMany"),
		in("mem/driver.go", "remembers-what-it-saw", "two-clients/interchangeable", "a client does not notice what another one has changed", memStat,
			"	if v, ok := seen.Load(seenKey{d, key}); ok {\n		return v.(backends.Info), nil\n	}\n	o, ok := d.space.get(key)\n	if !ok {\n		return backends.Info{}, missing(key)\n	}\n	seen.Store(seenKey{d, key}, o.publicInfo())\n	return o.publicInfo(), nil").
			and("mem/driver.go", "// ready is the first", "type seenKey struct {\n	d   *Driver\n	key string\n}\n\nvar seen sync.Map\n\n// ready is the first").and("mem/driver.go", "	\"sync/atomic\"\n", "	\"sync\"\n	\"sync/atomic\"\n"),
		in("mem/put.go", "loses-what-is-large", "put/huge", "of a large body only the beginning is stored", memStored, "	data = data[:min(len(data), 24<<20)]\n"+memStored),
		in("mem/get.go", "copies-what-it-reads", "res/heap-bound-get", "a read copies all that it reads first", "rest: o.data[off : off+length]}", "rest: append([]byte(nil), o.data[off:off+length]...)}"),
		in("acme/errors.go", "refused-when-busy", "fault/random", "being asked to slow down is a refusal", `"slow_down": backends.Throttled`, `"slow_down": backends.Denied`),
	}
}
