package gcs

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tierkit/tierkit/backends"
)

// TestADC_EachPlaceIsLookedAt: Application Default Credentials come from the file that the environment names, from gcloud's own file, and from the
// metadata server of the machine. The requests for tokens take the driver's transport, but those to the metadata server: the library of Google's has a
// client of its own for it, which no proxy may come between.
func TestADC_EachPlaceIsLookedAt(t *testing.T) {
	const theToken = `{"access_token":"the-token","token_type":"Bearer","expires_in":3600}`
	const user = `{"type":"authorized_user","client_id":"id","client_secret":"` + plantedSecret + `","refresh_token":"r"}`
	for name, tt := range map[string]struct {
		prepare func(t *testing.T, home string)
		host    string // of the token request; "": not by our transport
	}{
		"file of the environment": {func(t *testing.T, home string) {
			file := filepath.Join(home, "adc.json")
			writeFile(t, file, user)
			t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
		}, "oauth2.googleapis.com"},
		"gcloud": {func(t *testing.T, home string) {
			writeFile(t, filepath.Join(home, ".config", "gcloud", "application_default_credentials.json"), user)
		}, "oauth2.googleapis.com"},
		"metadata server": {func(t *testing.T, _ string) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Metadata-Flavor") != "Google" || !strings.HasSuffix(r.URL.Path, "/token") {
					w.WriteHeader(http.StatusNotFound)
					return
				}
				_, _ = w.Write([]byte(theToken))
			}))
			t.Cleanup(srv.Close)
			t.Setenv("GCE_METADATA_HOST", strings.TrimPrefix(srv.URL, "http://"))
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			for _, k := range []string{"GOOGLE_APPLICATION_CREDENTIALS", "GCE_METADATA_HOST", "APPDATA", "CLOUDSDK_CONFIG"} {
				t.Setenv(k, "")
			}
			t.Setenv("HOME", home)
			tt.prepare(t, home)
			w := &wire{act: func(_ int, req *http.Request, _ http.RoundTripper) (*http.Response, error) {
				if req.URL.Host != "storage.googleapis.com" {
					return reply(req, 200, theToken), nil
				}
				if got := req.Header.Get("Authorization"); got != "Bearer the-token" {
					t.Errorf("signed with %q", got)
				}
				return forge(req, 403, "forbidden"), nil
			}}
			d := open(t, Options{Bucket: "b", MaxAttempts: 1}, w.env())
			if err := operate(t.Context(), d, "list"); !errors.Is(err, backends.Denied) {
				t.Errorf("got %v", err)
			}
			var hosts []string
			for i := range w.log() {
				hosts = append(hosts, w.request(i).URL.Host)
			}
			if tt.host != "" && !slices.Contains(hosts, tt.host) {
				t.Errorf("requests went to %q, want %s among them", hosts, tt.host)
			}
		})
	}
}

// TestADC_AFileThatIsNotThere is an error of Open that says what else there is to set.
func TestADC_AFileThatIsNotThere(t *testing.T) {
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", filepath.Join(t.TempDir(), "none.json"))
	_, err := Open(t.Context(), Options{Bucket: "b"}, new(wire).env())
	if !errors.Is(err, backends.Unauthenticated) || !strings.Contains(err.Error(), keyPath) {
		t.Errorf("got %v", err)
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}
