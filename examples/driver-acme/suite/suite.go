// Package suite tells the conformance suite of tierkit what it has to know of the acme driver. The driver's own test and the command tierkit-acme share it.
package suite

import (
	"encoding/json"
	"os"
	"strings"

	"github.com/tierkit/tierkit/conformance"
)

// The settings that are varied beside those that KnobsOf finds by their names.
const (
	keyID    = "storage.acme.key.id"
	secret   = "storage.acme.secret"
	file     = "storage.acme.credentials.file"
	tokenURL = "storage.acme.token.url"
)

// Access is what a run may use beside the key of its configuration. The cases that need more than there is are skipped, and say so.
type Access struct {
	Reader  string // a key that may only read and list, "id:secret"
	Trusted bool   // the store takes the tokens of the suite's own token server: "conformance"
}

// Complete sets what a Harness of the acme driver lacks.
func (a Access) Complete(h *conformance.Harness) {
	h.Dialect = Dialect{}
	h.Limits.HugeBytes = 64 << 20 // acme-server keeps its objects in memory; a store with disks needs no such bound
	h.Knobs.WrongCredentials = map[string]string{file: "", secret: "none-that-is-right"}
	if h.Settings[keyID] == "" {
		h.Knobs.WrongCredentials[keyID] = "nobody" // the file has the right one
	}
	h.Knobs.NoCredentials = map[string]string{file: "", keyID: "", secret: ""}
	h.Knobs.CheckedReads = map[string]string{} // all of them are
	if id, text, ok := strings.Cut(a.Reader, ":"); ok {
		h.Knobs.ReadOnly = map[string]string{file: "", keyID: id, secret: text}
	}
	if id, text := h.Settings[keyID], h.Settings[secret]; id != "" && !strings.HasPrefix(text, "file:") {
		h.Knobs.CredentialsFile = func(path string, good bool) (map[string]string, error) {
			key := map[string]string{"key_id": id, "secret": text}
			if !good {
				key["secret"] = "none-that-is-right"
			}
			data, err := json.Marshal(key)
			if err != nil {
				return nil, err
			}
			return map[string]string{keyID: "", secret: "", file: path}, os.WriteFile(path, data, 0o600)
		}
	}
	if a.Trusted {
		h.Knobs.TokenServer = func(url string) (map[string]string, error) { return map[string]string{tokenURL: url}, nil }
	}
}
