package azure

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/internal/settings"
	"github.com/tierkit/tierkit/internal/testbed"
)

func registry(t *testing.T) *backends.Registry {
	t.Helper()
	reg := new(backends.Registry)
	if err := reg.Register(Factory()); err != nil {
		t.Fatal(err)
	}
	return reg
}

const aivenClass = "io.aiven.kafka.tieredstorage.storage.azure.AzureBlobStorage"

// TestSettings_AivensNamesChooseTheCredentials: each way that the plug-in knows works on a server.
func TestSettings_AivensNamesChooseTheCredentials(t *testing.T) {
	srv := testbed.Azurite(t)
	name := srv.Container(t)
	signature := signatureOf(t, srv.Client(t, name), sas.ContainerPermissions{Read: true, Write: true, Create: true, Delete: true, List: true}, time.Hour)
	for way, props := range map[string]map[string]string{
		"connection string": {keyConnection: srv.ConnectionString()},
		"account key":       {keyAccount: testbed.AzuriteAccount, keyKey: testbed.AzuriteKey, keyEndpoint: srv.Endpoint},
		"signature":         {keyAccount: testbed.AzuriteAccount, keySAS: signature, keyEndpoint: srv.Endpoint + "/"},
		"signature with ?":  {keySAS: "?" + signature, keyEndpoint: srv.Endpoint},
		"signature in a connection string": {
			keyConnection: "BlobEndpoint=" + srv.Endpoint + ";SharedAccessSignature=" + signature,
		},
	} {
		t.Run(way, func(t *testing.T) {
			props["storage.backend.class"] = aivenClass
			props[keyContainer] = name
			props[keyBlockSize] = "262144"
			s, err := registry(t).Open(t.Context(), props, backends.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if err := s.Probe(t.Context()); err != nil {
				t.Error(err)
			}
			data := string(pattern(600 << 10))
			if _, err := s.Put(t.Context(), "k", strings.NewReader(data), backends.PutOptions{Size: backends.SizeUnknown}); err != nil {
				t.Fatal(err)
			}
			if got := mustGet(t, s.Driver(), "k"); string(got) != data {
				t.Error("other bytes came back")
			}
		})
	}
}

func signatureOf(t *testing.T, c *container.Client, p sas.ContainerPermissions, valid time.Duration) string {
	t.Helper()
	begin := time.Now().Add(-24 * time.Hour)
	url, err := c.GetSASURL(p, time.Now().Add(valid), &container.GetSASURLOptions{StartTime: &begin})
	if err != nil {
		t.Fatal(err)
	}
	_, query, _ := strings.Cut(url, "?")
	return query
}

// TestProbe_SaysWhichPermissionIsMissing: exactly the documented ones suffice, each one that lacks has its own error.
func TestProbe_SaysWhichPermissionIsMissing(t *testing.T) {
	srv := testbed.Azurite(t)
	name := srv.Container(t)
	all := sas.ContainerPermissions{Read: true, Write: true, Create: true, Delete: true, List: true}
	probe := func(p sas.ContainerPermissions, valid time.Duration) error {
		d := open(t, Options{Container: name, Endpoint: srv.Endpoint, SAS: backends.NewSecret(signatureOf(t, srv.Client(t, name), p, valid)), MaxAttempts: 1}, backends.Env{})
		return d.Probe(t.Context())
	}
	if err := probe(all, time.Hour); err != nil {
		t.Errorf("all of them: %v", err)
	}
	for want, lack := range map[string]func(*sas.ContainerPermissions){
		"permission r": func(p *sas.ContainerPermissions) { p.Read = false },
		"permission w": func(p *sas.ContainerPermissions) { p.Write, p.Create = false, false },
		"permission d": func(p *sas.ContainerPermissions) { p.Delete = false },
		"permission l": func(p *sas.ContainerPermissions) { p.List = false },
	} {
		p := all
		lack(&p)
		if err := probe(p, time.Hour); !errors.Is(err, backends.Denied) || !strings.Contains(err.Error(), want) {
			t.Errorf("without %s: %v", want, err)
		}
	}
	if err := probe(all, -time.Hour); !errors.Is(err, backends.Denied) && !errors.Is(err, backends.Unauthenticated) {
		t.Errorf("expired: %v", err)
	}
	d := open(t, Options{Container: "none-such", ConnectionString: backends.NewSecret(srv.ConnectionString())}, backends.Env{})
	if err := d.Probe(t.Context()); !errors.Is(err, backends.InvalidArgument) || !strings.Contains(err.Error(), keyContainer) {
		t.Errorf("no such container: %v", err)
	}
}

func TestSettings_Mistakes(t *testing.T) {
	base := map[string]string{"storage.backend": "azure", keyContainer: "c"}
	for name, tt := range map[string]struct {
		props map[string]string
		want  []string // in the text
	}{
		"nothing":                {map[string]string{keyContainer: ""}, []string{keyContainer}},
		"no account":             {nil, []string{keyAccount}},
		"both ways":              {map[string]string{keyConnection: "x=y", keyAccount: "a"}, []string{keyConnection, keyAccount}},
		"key without account":    {map[string]string{keyKey: "YQ==", keyEndpoint: "https://e"}, []string{keyAccount}},
		"key is not base64":      {map[string]string{keyAccount: "a", keyKey: "!" + plantedSecret}, []string{keyKey}},
		"bad connection string":  {map[string]string{keyConnection: plantedSecret}, []string{keyConnection}},
		"endpoint is no URL":     {map[string]string{keyEndpoint: "account.blob", keyAccount: "a"}, []string{keyEndpoint}},
		"tokens without TLS":     {map[string]string{keyEndpoint: "http://127.0.0.1:10000/devstoreaccount1"}, []string{keyEndpoint, "TLS"}},
		"small blocks":           {map[string]string{keyAccount: "a", keyBlockSize: "102399"}, []string{keyBlockSize, "102400"}},
		"proxy without port":     {map[string]string{keyAccount: "a", "storage.proxy.host": "h"}, []string{"storage.proxy.port"}},
		"proxy of no scheme":     {map[string]string{keyAccount: "a", "storage.proxy.url": "h:1"}, []string{"storage.proxy.url"}},
		"archive cannot be read": {map[string]string{keyAccount: "a", keyTier: "Archive"}, []string{keyTier}},
		"several":                {map[string]string{keyBlockSize: "x", keyTier: "y", keyAccount: "a"}, []string{keyBlockSize, keyTier}},
	} {
		t.Run(name, func(t *testing.T) {
			props := map[string]string{}
			for _, m := range []map[string]string{base, tt.props} {
				for k, v := range m {
					props[k] = v
				}
			}
			s, err := registry(t).Open(t.Context(), props, backends.Options{})
			if err == nil {
				_ = s.Close()
				t.Fatal("accepted")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not name %s", err, want)
				}
			}
			if strings.Contains(err.Error(), plantedSecret) {
				t.Errorf("%q shows a secret", err)
			}
		})
	}
}

func TestSettings_EachIsReadAndReachesTheDriver(t *testing.T) {
	reg := registry(t)
	choice, err := reg.Parse(map[string]string{
		"storage.backend": "azure", keyContainer: "c", keyAccount: "acc", keyKey: "YWJj", keyEndpoint: "https://e.example/", keyBlockSize: "1MiB",
		keyConcurrency: "7", keyChecksum: "none", keyTier: "Cool", keyHeader: "1s", keyStall: "2000", keyConnect: "3s", keyAttempts: "9",
		keyMaxConns: "11", keyCAFile: "/ca", keyVerify: "false", "storage.proxy.host": "p", "storage.proxy.port": "1080",
		"storage.proxy.username": "u", "storage.proxy.password": "w",
	}, settings.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o, err := parse(choice.Config)
	if err != nil {
		t.Fatal(err)
	}
	got, _ := json.Marshal([]any{
		o.Container, o.Account, o.Key.Reveal(), o.Endpoint, o.BlockBytes, o.Concurrency, o.Checksum, o.Tier, o.ResponseTimeout.String(), o.StallTimeout.String(),
		o.ConnectTimeout.String(), o.MaxAttempts, o.MaxConns, o.CAFile, o.SkipVerify, o.Proxy.String(),
	})
	want := `["c","acc","YWJj","https://e.example/",1048576,7,"none","Cool","1s","2s","3s",9,11,"/ca",true,"socks5://u:w@p:1080"]`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if unread := choice.Config.Unread(); len(unread) > 0 {
		t.Errorf("settings that nothing reads: %q", unread)
	}
}

// TestTokens_GoThroughTheWrappedTransport: what DefaultAzureCredential asks for, and that its token signs requests.
func TestTokens_GoThroughTheWrappedTransport(t *testing.T) {
	for k, v := range map[string]string{
		"AZURE_TENANT_ID": "11111111-1111-1111-1111-111111111111", "AZURE_CLIENT_ID": "22222222-2222-2222-2222-222222222222",
		"AZURE_CLIENT_SECRET": plantedSecret, "AZURE_TOKEN_CREDENTIALS": "EnvironmentCredential", "AZURE_AUTHORITY_HOST": "",
	} {
		t.Setenv(k, v)
	}
	refuse := false
	var hosts []string
	w := new(wire)
	w.act = func(_ int, req *http.Request, _ http.RoundTripper) (*http.Response, error) {
		if !slices.Contains(hosts, req.URL.Host) {
			hosts = append(hosts, req.URL.Host)
		}
		body := ""
		switch {
		case req.URL.Host == "acc.blob.core.windows.net":
			if got := req.Header.Get("Authorization"); got != "Bearer the-token" {
				return forge(req, 401, "InvalidAuthenticationInfo", "WWW-Authenticate", "Bearer authorization_uri=https://login.microsoftonline.com/11111111-1111-1111-1111-111111111111/oauth2/authorize resource_id=https://storage.azure.com"), nil
			}
			return forge(req, 404, "BlobNotFound"), nil
		case strings.HasSuffix(req.URL.Path, "/token") && refuse:
			resp := forge(req, 401, "")
			resp.Body = io.NopCloser(strings.NewReader(`{"error":"invalid_client","error_description":"AADSTS7000215: Invalid client secret provided."}`))
			return resp, nil
		case strings.HasSuffix(req.URL.Path, "/token"):
			body = `{"token_type":"Bearer","expires_in":3600,"ext_expires_in":3600,"access_token":"the-token"}`
		case strings.Contains(req.URL.Path, "openid-configuration"):
			body = `{"token_endpoint":"https://login.microsoftonline.com/11111111-1111-1111-1111-111111111111/oauth2/v2.0/token","authorization_endpoint":"https://login.microsoftonline.com/a","issuer":"https://login.microsoftonline.com/11111111-1111-1111-1111-111111111111/v2.0"}`
		default:
			body = `{"tenant_discovery_endpoint":"https://login.microsoftonline.com/11111111-1111-1111-1111-111111111111/v2.0/.well-known/openid-configuration","api-version":"1.1","metadata":[]}`
		}
		resp := forge(req, 200, "", "Content-Type", "application/json")
		resp.Body = io.NopCloser(strings.NewReader(body))
		return resp, nil
	}
	d := open(t, Options{Container: "box", Account: "acc", MaxAttempts: 1}, w.env())
	if _, err := d.Stat(t.Context(), "k"); !errors.Is(err, backends.NotFound) {
		t.Errorf("got %v", err)
	}
	if want := []string{"acc.blob.core.windows.net", "login.microsoftonline.com"}; !slices.Equal(slices.Sorted(slices.Values(hosts)), want) {
		t.Errorf("hosts %q, want %q", hosts, want)
	}
	refuse = true
	d = open(t, Options{Container: "box", Account: "acc", MaxAttempts: 1}, w.env())
	if _, err := d.Stat(t.Context(), "k"); !errors.Is(err, backends.Unauthenticated) || strings.Contains(err.Error(), plantedSecret) {
		t.Errorf("refused: %v", err)
	}
}

// TestTokens_OfWorkloadsAndMachines: without a secret of its own a pod has a token of its service account, a machine its metadata service.
func TestTokens_OfWorkloadsAndMachines(t *testing.T) {
	file := filepath.Join(t.TempDir(), "federated")
	if err := os.WriteFile(file, []byte("the-assertion"), 0o600); err != nil {
		t.Fatal(err)
	}
	const tenant = "11111111-1111-1111-1111-111111111111"
	for name, host := range map[string]string{"WorkloadIdentityCredential": "login.microsoftonline.com", "ManagedIdentityCredential": "169.254.169.254"} {
		t.Run(name, func(t *testing.T) {
			for k, v := range map[string]string{
				"AZURE_TOKEN_CREDENTIALS": name, "AZURE_TENANT_ID": tenant, "AZURE_CLIENT_ID": "22222222-2222-2222-2222-222222222222",
				"AZURE_CLIENT_SECRET": "", "AZURE_FEDERATED_TOKEN_FILE": file, "AZURE_AUTHORITY_HOST": "", "IDENTITY_ENDPOINT": "", "MSI_ENDPOINT": "",
			} {
				t.Setenv(k, v)
			}
			asked := false
			w := new(wire)
			w.act = func(_ int, req *http.Request, _ http.RoundTripper) (*http.Response, error) {
				body := `{"token_type":"Bearer","expires_in":"3600","expires_on":"4102444800","resource":"https://storage.azure.com","access_token":"the-token"}`
				switch {
				case req.URL.Host == "acc.blob.core.windows.net":
					if got := req.Header.Get("Authorization"); got != "Bearer the-token" {
						return forge(req, 401, "InvalidAuthenticationInfo", "WWW-Authenticate", "Bearer authorization_uri=https://login.microsoftonline.com/"+tenant+"/oauth2/authorize resource_id=https://storage.azure.com"), nil
					}
					return forge(req, 404, "BlobNotFound"), nil
				case strings.Contains(req.URL.Path, "openid-configuration"):
					body = `{"token_endpoint":"https://login.microsoftonline.com/` + tenant + `/oauth2/v2.0/token","authorization_endpoint":"https://login.microsoftonline.com/a","issuer":"https://login.microsoftonline.com/` + tenant + `/v2.0"}`
				case strings.Contains(req.URL.Path, "discovery"):
					body = `{"tenant_discovery_endpoint":"https://login.microsoftonline.com/` + tenant + `/v2.0/.well-known/openid-configuration","api-version":"1.1","metadata":[]}`
				default:
					asked = asked || req.URL.Host == host
				}
				resp := forge(req, 200, "", "Content-Type", "application/json")
				resp.Body = io.NopCloser(strings.NewReader(body))
				return resp, nil
			}
			d := open(t, Options{Container: "box", Account: "acc", MaxAttempts: 1}, w.env())
			if _, err := d.Stat(t.Context(), "k"); !errors.Is(err, backends.NotFound) {
				t.Errorf("got %v", err)
			}
			if !asked {
				t.Errorf("nobody asked %s for a token: %v", host, w.log())
			}
		})
	}
}

func TestOpen_WarnsAboutUncheckedCertificates(t *testing.T) {
	var log strings.Builder
	d := open(t, Options{Container: "c", Account: "a", SAS: backends.NewSecret("sig=" + plantedSecret), SkipVerify: true}, backends.Env{Log: slog.New(slog.NewTextHandler(&log, nil))})
	if !strings.Contains(log.String(), keyVerify) || strings.Contains(log.String(), plantedSecret) {
		t.Errorf("logged %q", log.String())
	}
	if p := d.Properties(); p.Name != "azure" || !p.IfAbsent || p.PendingExpires != 7*24*time.Hour {
		t.Errorf("properties %+v", p)
	}
}
