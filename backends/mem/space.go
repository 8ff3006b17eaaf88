package mem

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tierkit/tierkit/backends"
)

// Space holds objects. The zero value is empty and ready; it is safe for concurrent use.
type Space struct {
	mu       sync.RWMutex
	objects  map[string]*object
	keys     []string // sorted
	used     int64
	pending  int64 // bytes of Puts on their way
	versions uint64
}

// object is one version; it never changes.
type object struct {
	info backends.Info
	data []byte
}

func (s *Space) get(key string) (*object, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	o, ok := s.objects[key]
	return o, ok
}

// put makes data the object of key. The bytes were charged as pending before.
func (s *Space) put(key string, data []byte, opts backends.PutOptions, meta map[string]string, now time.Time) (*object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, replaces := s.objects[key]
	if replaces && opts.IfAbsent {
		return nil, backends.Exists
	}
	s.versions++
	o := &object{data: data, info: backends.Info{
		Key: key, Size: int64(len(data)), ModTime: now, Version: version(s.versions), Meta: meta,
	}}
	if s.objects == nil {
		s.objects = make(map[string]*object)
	}
	s.objects[key] = o
	s.used += o.info.Size
	if replaces {
		s.used -= old.info.Size
		return o, nil
	}
	i, _ := slices.BinarySearch(s.keys, key)
	s.keys = slices.Insert(s.keys, i, key)
	return o, nil
}

func (s *Space) remove(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.objects[key]
	if !ok {
		return
	}
	delete(s.objects, key)
	s.used -= o.info.Size
	i, _ := slices.BinarySearch(s.keys, key)
	s.keys = slices.Delete(s.keys, i, i+1)
}

// page returns up to n infos of keys with the prefix that sort after the key after, and whether there are more.
func (s *Space) page(prefix, after string, n int) (infos []backends.Info, more bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	i, _ := slices.BinarySearch(s.keys, max(prefix, after))
	for ; i < len(s.keys) && strings.HasPrefix(s.keys[i], prefix); i++ {
		if s.keys[i] == after {
			continue
		}
		if len(infos) == n {
			return infos, true
		}
		info := s.objects[s.keys[i]].info
		info.Meta = nil
		infos = append(infos, info)
	}
	return infos, false
}

// charge takes n bytes for a Put on its way. limit 0 means none.
func (s *Space) charge(n, limit int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if limit > 0 && s.used+s.pending+n > limit {
		return backends.Errorf(backends.Exhausted, "the store holds %d of %d bytes, no room for %d more", s.used+s.pending, limit, n)
	}
	s.pending += n
	return nil
}

func (s *Space) uncharge(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending -= n
}
