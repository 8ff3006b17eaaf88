package drivers

import (
	"context"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/conformance"
	"github.com/tierkit/tierkit/internal/testbed"
)

const (
	entra  = "login.microsoftonline.com"
	tenant = "11111111-1111-1111-1111-111111111111"
)

// identity is a way in which DefaultAzureCredential gets tokens of Entra ID.
type identity struct {
	env  map[string]string
	only string // the part of the suite in which it matters how
}

// identities are the ways; federated is a file with a token of a pod's service account.
func identities(federated string) map[string]identity {
	const tokens = `^fault/.*/auth\.token/`
	app := func(name, secret, file string) map[string]string {
		return map[string]string{
			"AZURE_TOKEN_CREDENTIALS": name, "AZURE_TENANT_ID": tenant, "AZURE_CLIENT_ID": "22222222-2222-2222-2222-222222222222",
			"AZURE_CLIENT_SECRET": secret, "AZURE_FEDERATED_TOKEN_FILE": file, "AZURE_AUTHORITY_HOST": "", "IDENTITY_ENDPOINT": "", "MSI_ENDPOINT": "",
		}
	}
	return map[string]identity{
		"managed": {
			map[string]string{"AZURE_TOKEN_CREDENTIALS": "ManagedIdentityCredential", "IDENTITY_ENDPOINT": "http://" + entra, "IDENTITY_HEADER": "secret"},
			`^(fault/.*/auth\.token|fault/(5xx-once|drop-response)/(put|get|block.*)|put/(read-after-write|part-boundaries)|ctx/(dead-on-entry|cancel-at-each-step/(put|stat)))/`,
		},
		"workload": {app("WorkloadIdentityCredential", "", federated), tokens},
		"secret":   {app("EnvironmentCredential", "secret", ""), tokens},
	}
}

// TestAzureToken is the part of the suite in which it matters that requests are signed with tokens of Entra ID: those of a managed identity, of a pod, of an
// application with a secret. Azurite knows none; a server with TLS in front of it takes them, and signs with a shared access signature.
func TestAzureToken(t *testing.T) {
	federated := filepath.Join(t.TempDir(), "federated")
	if err := os.WriteFile(federated, []byte("the-assertion"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, id := range identities(federated) {
		t.Run(name, func(t *testing.T) {
			h := onAzure(t)
			delete(h.Settings, "storage.azure.account.key")
			delete(h.Settings, "storage.azure.account.name")
			front := tokenFront(t, testbed.Azurite(t), h.Settings["storage.azure.container.name"])
			ca := filepath.Join(t.TempDir(), "ca.pem")
			if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: front.Certificate().Raw}), 0o600); err != nil {
				t.Fatal(err)
			}
			h.Settings["storage.azure.ca.file"] = ca
			h.Settings["storage.azure.endpoint.url"] = front.URL + "/" + testbed.AzuriteAccount
			for key, value := range id.env {
				t.Setenv(key, value)
			}
			open, server := conformance.FromFactory(*h.Factory, h.Settings), entraServer(t)
			h.Open, h.Shared = func(ctx context.Context, o conformance.OpenOptions) (backends.Driver, error) {
				wrap := o.Env.WrapTransport
				o.Env.WrapTransport = func(next http.RoundTripper) http.RoundTripper { return toEntra{wrap(next), server} }
				return open(ctx, o)
			}, true
			h.Deviations, h.Knobs.WrongCredentials, h.Knobs.ReadOnly = nil, nil, nil
			h.Only = regexp.MustCompile(id.only)
			suite(t, h)
		})
	}
}

// toEntra sends requests for Entra ID to the server of the test: the address of the real one is part of the SDK. It lies above the faults, some of which look for
// the transport below.
type toEntra struct {
	next http.RoundTripper
	host string
}

func (e toEntra) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host != entra {
		return e.next.RoundTrip(r)
	}
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host, r.Host = "http", e.host, e.host
	return e.next.RoundTrip(r)
}

// CloseIdleConnections lets http.Client reach the pool.
func (e toEntra) CloseIdleConnections() {
	if c, ok := e.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// entraServer gives tokens to all who ask, and says where they are to be had.
func entraServer(t *testing.T) (host string) {
	t.Helper()
	const at = "https://" + entra + "/" + tenant
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/openid-configuration"):
			_, _ = fmt.Fprintf(w, `{"token_endpoint":"%[1]s/oauth2/v2.0/token","authorization_endpoint":"%[1]s/oauth2/v2.0/authorize","issuer":"%[1]s/v2.0"}`, at)
		case strings.HasSuffix(r.URL.Path, "/discovery/instance"):
			_, _ = fmt.Fprintf(w, `{"tenant_discovery_endpoint":"%s/v2.0/.well-known/openid-configuration","api-version":"1.1","metadata":[]}`, at)
		default:
			// Four minutes: the SDK shares tokens that hold for more than five among all clients of a process, and the cases are about requests for them.
			holds := 4 * time.Minute
			_, _ = fmt.Fprintf(w, `{"access_token":"conformance","token_type":"Bearer","resource":"https://storage.azure.com/","expires_in":"%.0f","expires_on":"%d"}`,
				holds.Seconds(), time.Now().Add(holds).Unix())
		}
	}))
	t.Cleanup(srv.Close)
	return strings.TrimPrefix(srv.URL, "http://")
}

// tokenFront takes requests with a token, and hands them on with a signature.
func tokenFront(t *testing.T, srv *testbed.Azure, container string) *httptest.Server {
	t.Helper()
	signature := srv.ReadWrite(t, container)
	to, err := url.Parse(srv.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	to.Path = ""
	next := &http.Transport{DisableKeepAlives: true} // descriptors of this process are counted
	quiet := slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	proxy := &httputil.ReverseProxy{Transport: next, ErrorLog: quiet, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Header.Del("Authorization")
		r.Out.URL.RawQuery = strings.TrimPrefix(r.In.URL.RawQuery+"&"+signature, "&")
	}}
	front := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer conformance" {
			w.Header().Set("X-Ms-Error-Code", "NoAuthenticationInformation")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	front.Config.ErrorLog = quiet
	front.StartTLS()
	t.Cleanup(front.Close)
	return front
}
