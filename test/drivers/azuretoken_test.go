package drivers

import (
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

	"github.com/tierkit/tierkit/internal/testbed"
)

// TestAzureToken is the part of the suite in which it matters that requests are signed with tokens of Entra ID: those of a managed identity. Azurite knows
// none; a server with TLS in front of it takes them, and signs with a shared access signature.
func TestAzureToken(t *testing.T) {
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
	identity := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		// Four minutes: the SDK shares tokens that hold for more than five among all clients of a process, and the cases are about requests for them.
		_, _ = fmt.Fprintf(w, `{"access_token":"conformance","token_type":"Bearer","resource":"https://storage.azure.com/","expires_on":"%d"}`, time.Now().Add(4*time.Minute).Unix())
	}))
	t.Cleanup(identity.Close)
	t.Setenv("IDENTITY_ENDPOINT", identity.URL)
	t.Setenv("IDENTITY_HEADER", "secret")
	t.Setenv("AZURE_TOKEN_CREDENTIALS", "ManagedIdentityCredential")
	h.Deviations, h.Knobs.WrongCredentials, h.Knobs.ReadOnly = nil, nil, nil
	h.Only = regexp.MustCompile(`^(fault/.*/auth\.token|fault/(5xx-once|drop-response)/(put|get|block.*)|put/(read-after-write|part-boundaries)|ctx/(dead-on-entry|cancel-at-each-step/(put|stat)))/`)
	suite(t, h)
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
