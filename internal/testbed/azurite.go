package testbed

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"

	"github.com/tierkit/tierkit/internal/need"
)

// AzuriteVersion is the newest that declares to run on Node.js 20; scripts/tools.sh has the same.
const AzuriteVersion = "3.35.0"

// The account that every Azurite has, with a key that is public: github.com/Azure/Azurite#default-storage-account.
const (
	AzuriteAccount = "devstoreaccount1"
	AzuriteKey     = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

// Azure is an emulator of Azure Blob Storage.
type Azure struct {
	Endpoint string // of the account

	containers atomic.Int64
}

// Azurite returns a running Azurite.
func Azurite(t testing.TB) *Azure {
	t.Helper()
	node := need.Command(t, "node", "install Node.js 20 or newer")
	script := program(t, "azurite", AzuriteVersion, "node_modules/azurite/dist/src/blob/main.js")
	return get(t, &all, "azurite", func(dir string) (*Azure, *process, error) {
		port, err := freePorts(1)
		if err != nil {
			return nil, nil, err
		}
		at := "http://127.0.0.1:" + strconv.Itoa(port[0]) + "/"
		// The check of the API version has to be off: the SDK is ahead of the emulator. In memory, so that a killed server leaves nothing.
		p, err := start(dir, nil, node, script, "--blobHost", "127.0.0.1", "--blobPort", strconv.Itoa(port[0]), "--inMemoryPersistence",
			"--disableTelemetry", "--silent", "--skipApiVersionCheck")
		if err != nil {
			return nil, nil, err
		}
		return &Azure{Endpoint: at + AzuriteAccount}, p, p.answers(t.Context(), at, func(int) bool { return true })
	})
}

// ConnectionString is one with the account's key.
func (a *Azure) ConnectionString() string {
	return fmt.Sprintf("DefaultEndpointsProtocol=http;AccountName=%s;AccountKey=%s;BlobEndpoint=%s;", AzuriteAccount, AzuriteKey, a.Endpoint)
}

// Client returns a client of the SDK for a container, with the account's key: for what is looked at from outside.
func (a *Azure) Client(t testing.TB, name string) *container.Client {
	t.Helper()
	cred, err := container.NewSharedKeyCredential(AzuriteAccount, AzuriteKey)
	if err != nil {
		t.Fatal(err)
	}
	tr := new(http.Transport)
	t.Cleanup(tr.CloseIdleConnections)
	c, err := container.NewClientWithSharedKeyCredential(a.Endpoint+"/"+name, cred, &container.ClientOptions{ClientOptions: azcore.ClientOptions{
		Retry: policy.RetryOptions{MaxRetries: -1}, Transport: &http.Client{Transport: tr},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Container makes an empty container.
func (a *Azure) Container(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("c%d-%d", os.Getpid(), a.containers.Add(1))
	if _, err := a.Client(t, name).Create(t.Context(), nil); err != nil {
		t.Fatalf("make container %s: %v", name, err)
	}
	return name
}

// Blobs returns a function that lists the committed blobs of a container, as seen from outside.
func (a *Azure) Blobs(t testing.TB, name string) func(ctx context.Context, prefix string) ([]string, error) {
	t.Helper()
	c := a.Client(t, name)
	return func(ctx context.Context, prefix string) ([]string, error) {
		var out []string
		for pages := c.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{Prefix: &prefix}); pages.More(); {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return out, err
			}
			for _, blob := range page.Segment.BlobItems {
				out = append(out, *blob.Name)
			}
		}
		return out, nil
	}
}

// ReadOnly returns a signature that allows reading and listing in a container, and nothing else.
func (a *Azure) ReadOnly(t testing.TB, name string) string {
	t.Helper()
	return a.signature(t, name, sas.ContainerPermissions{Read: true, List: true})
}

// ReadWrite returns a signature that allows everything that a driver does in a container.
func (a *Azure) ReadWrite(t testing.TB, name string) string {
	t.Helper()
	return a.signature(t, name, sas.ContainerPermissions{Read: true, Add: true, Create: true, Write: true, Delete: true, List: true})
}

func (a *Azure) signature(t testing.TB, name string, allowed sas.ContainerPermissions) string {
	t.Helper()
	url, err := a.Client(t, name).GetSASURL(allowed, time.Now().Add(24*time.Hour), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, token, _ := strings.Cut(url, "?")
	return token
}
