package backends

import (
	"context"
	"encoding/base64"
	"iter"
	"strings"
	"unicode/utf8"
)

// List yields what has a key that starts with prefix, in ascending byte order of keys. A page is asked for when it is needed; no slot
// is held while the loop's body runs. After an error nothing more comes.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		token, last := "", ""
		for {
			page, err := s.page(ctx, prefix, token, last)
			if err != nil {
				yield(Info{}, err)
				return
			}
			for _, info := range page.Infos {
				last = info.Key
				if IsReserved(info.Key) {
					continue
				}
				info.Key = info.Key[len(s.prefix):]
				if !yield(info, nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			token = page.Next
		}
	}
}

// page asks for one page, keys with the Store's prefix, and sees that the listing goes forward.
func (s *Store) page(ctx context.Context, prefix, token, last string) (Page, error) {
	var page Page
	err := s.call(ctx, request{op: OpList, key: prefix, free: true, slots: &s.reads}, func(ctx context.Context, r *run) (err error) {
		page, err = s.driver.List(ctx, ListOptions{Prefix: r.full, Token: token})
		if err != nil {
			return err
		}
		r.bytes = int64(len(page.Infos))
		if page.Next != "" && page.Next == token {
			return Errorf(Internal, "the listing does not go on: the same token twice")
		}
		for _, info := range page.Infos {
			if !strings.HasPrefix(info.Key, r.full) || last != "" && info.Key <= last {
				return Errorf(Internal, "the listing is out of order or beside its prefix at %q", info.Key)
			}
			last = info.Key
		}
		return nil
	})
	return page, err
}

// AfterKey makes a listing token of the last key of a page, for stores that list by "start after". Its inverse is ParseAfterKey.
func AfterKey(key string) string { return "a" + base64.RawURLEncoding.EncodeToString([]byte(key)) }

// ParseAfterKey returns the key that AfterKey was given, "" for the token "". A token that AfterKey did not make for this prefix is
// InvalidArgument.
func ParseAfterKey(token, prefix string) (string, error) {
	if token == "" {
		return "", nil
	}
	text, ok := strings.CutPrefix(token, "a")
	key, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if !ok || err != nil || len(key) == 0 || !utf8.Valid(key) || !strings.HasPrefix(string(key), prefix) {
		return "", Errorf(InvalidArgument, "the token is not one of this listing")
	}
	return string(key), nil
}

// Uploads returns the unfinished uploads of keys that start with prefix, and those whose key the store does not record. Unsupported
// where the driver cannot tell.
func (s *Store) Uploads(ctx context.Context, prefix string) ([]Upload, error) {
	var out []Upload
	err := s.call(ctx, request{op: OpUploads, key: prefix, free: true, slots: &s.reads}, func(ctx context.Context, r *run) error {
		d, ok := s.driver.(UploadLister)
		if !ok {
			return Errorf(Unsupported, "this store does not list unfinished uploads")
		}
		ups, err := d.ListUploads(ctx, r.full)
		for _, u := range ups {
			u.Key = strings.TrimPrefix(u.Key, s.prefix)
			out = append(out, u)
		}
		r.bytes = int64(len(out))
		return err
	})
	return out, err
}

// AbortUpload removes an unfinished upload that Uploads returned. One that is gone is success.
func (s *Store) AbortUpload(ctx context.Context, u Upload) error {
	return s.call(ctx, request{op: OpAbort, key: u.Key, free: true, slots: &s.writes}, func(ctx context.Context, r *run) error {
		d, ok := s.driver.(UploadLister)
		if !ok {
			return Errorf(Unsupported, "this store does not list unfinished uploads")
		}
		if u.Key != "" {
			u.Key = r.full
		}
		return d.AbortUpload(ctx, u)
	})
}

// Probe checks cheaply that the store can be used: by the driver's own check, else by listing one key.
func (s *Store) Probe(ctx context.Context) error {
	return s.call(ctx, request{op: OpProbe, free: true, slots: &s.reads}, func(ctx context.Context, r *run) error {
		if d, ok := s.driver.(Prober); ok {
			return d.Probe(ctx)
		}
		_, err := s.driver.List(ctx, ListOptions{Prefix: r.full, Limit: 1})
		return err
	})
}
