package props

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/magiconair/properties"

	"github.com/tierkit/tierkit/internal/settings"
)

// MaxBytes bounds a properties file.
const MaxBytes = 1 << 20

// File is a properties file, its keys sorted by whom they are for.
type File struct {
	Path string // for messages

	RSM, RLMM             map[string]string // without prefix
	RSMPrefix, RLMMPrefix string            // what was cut off the keys, "" in a file of bare keys: for settings.Options.Prefix

	Notices []string // what the user should hear once

	all map[string]string
}

// Load reads a file. If it can be read at all the File is there even when err is not nil, so that mistakes in its settings can be reported
// together with those in err.
func Load(path string) (*File, error) {
	data, err := read(path)
	if err != nil {
		return nil, settings.Missing(path, "the configuration cannot be read: %v", err)
	}
	return Parse(path, data)
}

func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		if pe, ok := errors.AsType[*fs.PathError](err); ok {
			return nil, pe.Err
		}
		return nil, err
	}
	defer func() { _ = f.Close() }() // read only
	data, err := io.ReadAll(io.LimitReader(f, MaxBytes+1))
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return nil, pe.Err
	}
	return data, err
}

// Pairs reads a properties file whose keys are for others to understand.
func Pairs(path string) (map[string]string, error) {
	data, err := read(path)
	switch {
	case err != nil:
		return nil, err
	case len(data) > MaxBytes:
		return nil, fmt.Errorf("it has more than %d bytes", MaxBytes)
	}
	return pairs(data)
}

// pairs takes the bytes as Java does.
func pairs(data []byte) (map[string]string, error) {
	if what, ok := wrongEncoding(data); ok {
		return nil, fmt.Errorf("it %s, which Java would read as a part of a key: save it as plain text", what)
	}
	l := properties.Loader{Encoding: properties.ISO_8859_1, DisableExpansion: true}
	p, err := l.LoadBytes(data)
	if err != nil {
		return nil, fmt.Errorf("not a properties file: %w", err)
	}
	return p.Map(), nil
}

// Parse is Load of bytes that are there already; path is for messages.
func Parse(path string, data []byte) (*File, error) {
	if len(data) > MaxBytes {
		return nil, settings.Missing(path, "the configuration has more than %d bytes", MaxBytes)
	}
	all, err := pairs(data)
	if err != nil {
		return nil, settings.Missing(path, "%v", err)
	}
	f := &File{Path: path, RSM: map[string]string{}, RLMM: map[string]string{}, all: all}
	if slices.ContainsFunc(data, func(b byte) bool { return b >= 0x80 }) {
		f.Notices = append(f.Notices, path+" has bytes outside ASCII, which are read as ISO-8859-1 as Java does; write \\u00e4 and the like instead")
	}
	if !f.split() {
		return nil, settings.Missing(defaultRSMPrefix+keyBackend, "is required: %s looks like a broker's file, and no key in it begins with %s or %s",
			path, defaultRSMPrefix, defaultRLMMPrefix)
	}
	return f, f.check()
}

// wrongEncoding finds what editors of other systems write. Java takes the mark for a part of the first key.
func wrongEncoding(data []byte) (what string, found bool) {
	switch {
	case bytes.HasPrefix(data, []byte("\xef\xbb\xbf")):
		return "begins with a UTF-8 byte order mark", true
	case bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")):
		return "begins with a UTF-16 byte order mark", true
	case bytes.IndexByte(data, 0) >= 0:
		return "has NUL bytes", true
	}
	return "", false
}

// Keys of a broker that say where ours are.
const (
	keyRSMPrefix      = "remote.log.storage.manager.impl.prefix"
	keyRLMMPrefix     = "remote.log.metadata.manager.impl.prefix"
	defaultRSMPrefix  = "rsm.config."
	defaultRLMMPrefix = "rlmm.config."
	keyBackend        = "storage.backend"
	keyProviders      = "config.providers"
)

// split sorts the keys. It reports false for a broker's file that has nothing for us.
func (f *File) split() bool {
	rsm, rlmm := f.prefix(keyRSMPrefix, defaultRSMPrefix), f.prefix(keyRLMMPrefix, defaultRLMMPrefix)
	for key, value := range f.all {
		// Java cuts both prefixes independently; where one begins with the other the longer one means the key.
		inRSM, inRLMM := strings.HasPrefix(key, rsm), strings.HasPrefix(key, rlmm)
		if inRSM && (!inRLMM || len(rlmm) <= len(rsm)) {
			f.RSM[key[len(rsm):]] = value
		} else if inRLMM {
			f.RLMM[key[len(rlmm):]] = value
		}
	}
	if len(f.RSM)+len(f.RLMM) > 0 {
		f.RSMPrefix, f.RLMMPrefix = rsm, rlmm
		return true
	}
	return f.splitBare()
}

func (f *File) splitBare() bool {
	ours := false
	for key, value := range f.all {
		switch {
		case settings.Has(MetadataSettings(), key):
			f.RLMM[key] = value
		case isBroker(key):
		case strings.HasPrefix(key, "remote.log.metadata."):
			f.RLMM[key] = value
		default:
			f.RSM[key] = value
			ours = ours || looksOurs(key)
		}
	}
	_, log := f.all[keyLog] // metadata.log.dir alone may be Kafka's
	return ours || log || !f.isBrokerFile()
}

func (f *File) prefix(key, def string) string {
	if p := strings.TrimSpace(f.all[key]); p != "" {
		return p
	}
	return def
}

// check finds what is wrong with the file as a whole.
func (f *File) check() error {
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(f.all)) {
		if f.RSMPrefix != "" && looksOurs(key) && !strings.HasPrefix(key, f.RSMPrefix) {
			errs = append(errs, settings.Missing(key, "lacks the prefix %s, which other keys of the file have", f.RSMPrefix))
		}
	}
	errs = append(errs, f.checkProviders()...)
	if _, _, err := f.brokerID(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// checkProviders refuses values that a broker would replace before we see them: passing "${vault:...}" on as a password would fail far from
// here. Where the broker would not, a value that looks like that gets a notice.
func (f *File) checkProviders() []error {
	var errs []error
	for _, side := range []struct {
		prefix string
		keys   map[string]string
	}{{f.RSMPrefix, f.RSM}, {f.RLMMPrefix, f.RLMM}} {
		for _, key := range slices.Sorted(maps.Keys(side.keys)) {
			switch {
			case !f.HasProviders() && strings.HasPrefix(side.keys[key], "${"):
				f.Notices = append(f.Notices, side.prefix+key+" begins with ${, and the file has no config.providers: it is taken as it is; if that is not meant give the value, or for a secret file:PATH or env:NAME")
			case f.HasProviders() && strings.Contains(side.keys[key], "${"):
				errs = append(errs, settings.Missing(side.prefix+key, "uses a config provider of the broker, which is not there outside it; "+
					"give the value, or for a secret file:PATH or env:NAME"))
			}
		}
	}
	return errs
}

// looksOurs tells a key that only tierkit and the plug-in have.
func looksOurs(key string) bool {
	for _, p := range []string{"storage.", "chunk.size", "key.prefix", "encryption.", "fetch.chunk.", "fetch.indexes.", "fetch.manifest.", "memory.budget.", "tierkit."} {
		if strings.HasPrefix(key, p) {
			return true
		}
	}
	return false
}
