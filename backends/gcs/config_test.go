package gcs

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/internal/settings"
	"github.com/tierkit/tierkit/internal/testbed"
)

const plantedSecret = "planted-secret-of-a-key-file"

func registry(t *testing.T) *backends.Registry {
	t.Helper()
	reg := new(backends.Registry)
	if err := reg.Register(Factory()); err != nil {
		t.Fatal(err)
	}
	return reg
}

const aivenClass = "io.aiven.kafka.tieredstorage.storage.gcs.GcsStorage"

// TestSettings_AivensNamesWork on a server; a variable of the environment that the SDK looks for changes nothing.
func TestSettings_AivensNamesWork(t *testing.T) {
	t.Setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:1")
	srv := testbed.FakeGCS(t)
	name := srv.Bucket(t)
	file := filepath.Join(t.TempDir(), "key.json")
	if err := os.WriteFile(file, []byte(`{"access_token":"t"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for way, props := range map[string]map[string]string{
		"anonymous": {keyDefault: "false"},
		"json":      {keyJSON: `{"access_token":"t"}`},
		"file":      {keyPath: file},
	} {
		props["storage.backend.class"] = aivenClass
		props[keyBucket], props[keyEndpoint], props[keyChunkSize] = name, srv.Endpoint, "262144"
		s, err := registry(t).Open(t.Context(), props, backends.Options{})
		if err != nil {
			t.Fatalf("%s: %v", way, err)
		}
		if err := s.Probe(t.Context()); err != nil {
			t.Errorf("%s: %v", way, err)
		}
		data := string(pattern(600 << 10))
		if _, err := s.Put(t.Context(), "k", strings.NewReader(data), backends.PutOptions{Size: backends.SizeUnknown}); err != nil {
			t.Fatalf("%s: %v", way, err)
		}
		if got := mustGet(t, s.Driver(), "k"); string(got) != data {
			t.Errorf("%s: other bytes came back", way)
		}
		_ = s.Close()
	}
	if got := srv.Objects(t, name); strings.Contains(got, ".tierkit") || !strings.Contains(got, `"k"`) {
		t.Errorf("left in the bucket: %s", got)
	}
}

func TestSettings_Mistakes(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none")
	for name, tt := range map[string]struct {
		props map[string]string
		want  []string // in the text
	}{
		"no bucket":          {map[string]string{keyBucket: "", keyDefault: "false"}, []string{keyBucket}},
		"two ways":           {map[string]string{keyJSON: "{}", keyPath: "f"}, []string{keyJSON, keyPath}},
		"default and file":   {map[string]string{keyDefault: "true", keyPath: "f"}, []string{keyDefault, keyPath}},
		"no such file":       {map[string]string{keyPath: missing}, []string{keyPath, missing}},
		"no JSON":            {map[string]string{keyJSON: plantedSecret}, []string{keyJSON}},
		"unknown type":       {map[string]string{keyJSON: `{"type":"x","private_key":"` + plantedSecret + `"}`}, []string{keyJSON}},
		"chunks of odd size": {map[string]string{keyChunkSize: "262145", keyDefault: "false"}, []string{keyChunkSize, "262144"}},
		"endpoint":           {map[string]string{keyEndpoint: "storage.local", keyDefault: "false"}, []string{keyEndpoint}},
		"endpoint with path": {map[string]string{keyEndpoint: "http://h/a/b", keyDefault: "false"}, []string{keyEndpoint}},
		"proxy":              {map[string]string{"storage.proxy.url": "h:1", keyDefault: "false"}, []string{"storage.proxy.url"}},
		"several":            {map[string]string{keyChunkSize: "x", keyVerify: "y"}, []string{keyChunkSize, keyVerify}},
	} {
		props := map[string]string{"storage.backend": "gcs", keyBucket: "b"}
		for k, v := range tt.props {
			props[k] = v
		}
		s, err := registry(t).Open(t.Context(), props, backends.Options{})
		if err == nil {
			_ = s.Close()
			t.Errorf("%s: accepted", name)
			continue
		}
		for _, want := range tt.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q does not name %s", name, err, want)
			}
		}
		if strings.Contains(err.Error(), plantedSecret) {
			t.Errorf("%s: %q shows a secret", name, err)
		}
	}
}

func TestSettings_EachIsReadAndReachesTheDriver(t *testing.T) {
	choice, err := registry(t).Parse(map[string]string{
		"storage.backend": "gcs", keyBucket: "b", keyEndpoint: "https://e.example/", keyChunkSize: "1MiB", keyPath: "/key", keyClass: "NEARLINE", keyProject: "p",
		keyDeadline: "9s", keyTransfer: "8s", keyHeader: "1s", keyStall: "2000", keyConnect: "3s", keyAttempts: "9", keyMaxConns: "11", keyCAFile: "/ca",
		keyVerify: "false", "storage.proxy.url": "http://u:w@p:3128",
	}, settings.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o, err := parse(choice.Config)
	if err != nil {
		t.Fatal(err)
	}
	endpoint, _ := o.endpoint()
	got, _ := json.Marshal([]any{
		o.Bucket, endpoint, o.ChunkBytes, o.CredentialsFile, o.Anonymous, o.StorageClass, o.UserProject, o.RetryDeadline.String(), o.ChunkTimeout.String(),
		o.ResponseTimeout.String(), o.StallTimeout.String(), o.ConnectTimeout.String(), o.MaxAttempts, o.MaxConns, o.CAFile, o.SkipVerify, o.Proxy.String(),
	})
	want := `["b","https://e.example/storage/v1/",1048576,"/key",false,"NEARLINE","p","9s","8s","1s","2s","3s",9,11,"/ca",true,"http://u:w@p:3128"]`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if unread := choice.Config.Unread(); len(unread) > 0 {
		t.Errorf("settings that nothing reads: %q", unread)
	}
}

// TestCredentials_TheFileIsReadAgainWhenItChanges, and one that is broken for a moment changes nothing.
func TestCredentials_TheFileIsReadAgainWhenItChanges(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key.json")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"access_token":"one"}`)
	now := time.Unix(1_800_000_000, 0)
	var logged strings.Builder
	w := &wire{act: func(_ int, req *http.Request, _ http.RoundTripper) (*http.Response, error) {
		return forge(req, 403, "forbidden"), nil
	}}
	env := w.env()
	env.Now, env.Log = func() time.Time { return now }, slog.New(slog.NewTextHandler(&logged, nil))
	d := open(t, Options{Bucket: "b", CredentialsFile: file, MaxAttempts: 1}, env)
	token := func() string {
		t.Helper()
		if err := operate(t.Context(), d, "list"); !errors.Is(err, backends.Denied) {
			t.Fatal(err)
		}
		return w.request(len(w.log()) - 1).Header.Get("Authorization")
	}
	steps := []struct {
		text  string
		after time.Duration
		want  string
	}{
		{"", 0, "Bearer one"},
		{`{"access_token":"two"}`, 9 * time.Second, "Bearer one"}, // not looked at yet
		{"", time.Second, "Bearer two"},
		{`{"access_token":"` + plantedSecret, 11 * time.Second, "Bearer two"}, // half written
		{`{"access_token":"three"}`, 11 * time.Second, "Bearer three"},
	}
	for i, s := range steps {
		if s.text != "" {
			write(s.text)
		}
		now = now.Add(s.after)
		if got := token(); got != s.want {
			t.Errorf("step %d: %q, want %q", i, got, s.want)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Minute)
	if got := token(); got != "Bearer three" {
		t.Errorf("without the file: %q", got)
	}
	if n := strings.Count(logged.String(), "level=WARN"); n != 2 || strings.Contains(logged.String(), plantedSecret) {
		t.Errorf("logged %s", logged.String())
	}
}

// TestCredentials_TokenRequestsTakeTheWrappedTransport: those of a service account, good and refused.
func TestCredentials_TokenRequestsTakeTheWrappedTransport(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	account, _ := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "a@b.iam.gserviceaccount.com", "private_key_id": "1", "token_uri": "https://oauth2.googleapis.com/token",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	})
	for name, tt := range map[string]struct {
		status int
		body   string
		date   time.Duration
		want   backends.Code
	}{
		"good":       {200, `{"access_token":"the-token","token_type":"Bearer","expires_in":3600}`, 0, backends.Denied},
		"refused":    {400, `{"error":"invalid_grant","error_description":"Invalid JWT Signature."}`, 0, backends.Unauthenticated},
		"clock skew": {400, `{"error":"invalid_grant","error_description":"Invalid JWT."}`, time.Hour, backends.ClockSkew},
	} {
		t.Run(name, func(t *testing.T) {
			var hosts []string
			w := &wire{act: func(_ int, req *http.Request, _ http.RoundTripper) (*http.Response, error) {
				hosts = append(hosts, req.URL.Host)
				if req.URL.Host == "oauth2.googleapis.com" {
					return reply(req, tt.status, tt.body, "Date", time.Now().Add(tt.date).UTC().Format(http.TimeFormat)), nil
				}
				if got := req.Header.Get("Authorization"); got != "Bearer the-token" {
					t.Errorf("signed with %q", got)
				}
				return forge(req, 403, "forbidden"), nil
			}}
			d := open(t, Options{Bucket: "b", CredentialsJSON: backends.NewSecret(string(account)), MaxAttempts: 1}, w.env())
			err := operate(t.Context(), d, "list")
			if backends.CodeOf(err) != tt.want {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if !slices.Contains(hosts, "oauth2.googleapis.com") {
				t.Errorf("requests went to %q", hosts)
			}
		})
	}
}

func TestCredentials_ABrokenKeyIsFoundAtTheFirstRequest(t *testing.T) {
	w := new(wire)
	account := `{"type":"service_account","client_email":"a@b","token_uri":"https://oauth2.googleapis.com/token","private_key":"` + plantedSecret + `"}`
	d := open(t, Options{Bucket: "b", CredentialsJSON: backends.NewSecret(account), MaxAttempts: 3}, w.env())
	if err := operate(t.Context(), d, "list"); !errors.Is(err, backends.Unauthenticated) || len(w.log()) > 0 || strings.Contains(err.Error(), plantedSecret) {
		t.Errorf("got %v after %d requests", err, len(w.log()))
	}
}

func TestCredentials_AnonymousRequestsGoUnsigned(t *testing.T) {
	w := &wire{act: func(_ int, req *http.Request, _ http.RoundTripper) (*http.Response, error) {
		return forge(req, 401, ""), nil
	}}
	d := open(t, Options{Bucket: "b", Anonymous: true, MaxAttempts: 1}, w.env())
	if err := operate(t.Context(), d, "list"); !errors.Is(err, backends.Unauthenticated) {
		t.Error(err)
	}
	if got, host := w.request(0).Header.Get("Authorization"), w.request(0).URL.Host; got != "" || host != "storage.googleapis.com" {
		t.Errorf("signed with %q, sent to %s", got, host)
	}
}
