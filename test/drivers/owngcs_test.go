package drivers

import (
	"bufio"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/tierkit/tierkit/conformance/fault/gcsserver"
)

// ownGCS makes the test binary the server of TestGCSOnOwnServer: what it keeps in memory is not the driver's.
const ownGCS = "TIERKIT_OWN_GCS_SERVER"

// serveOwnGCS says where it is, and ends with its standard input.
func serveOwnGCS() {
	srv := httptest.NewServer(gcsserver.New("box"))
	fmt.Println(srv.URL)
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test is over
	srv.CloseClientConnections()
	srv.Close()
}

func startOwnGCS(t *testing.T) (url string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), ownGCS+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close() // it ends
		_ = cmd.Wait() // the test's context may have killed it before
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the server does not say where it is: %v", err)
	}
	return strings.TrimSpace(line)
}
