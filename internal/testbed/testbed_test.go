package testbed

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestVersions_AreThoseThatAreInstalled(t *testing.T) {
	script, err := os.ReadFile("../../scripts/tools.sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"minio=" + MinIOVersion, "seaweedfs=" + SeaweedFSVersion, "versitygw=" + VersityGWVersion, "azurite=" + AzuriteVersion, "fakegcs=" + FakeGCSVersion,
	} {
		if !strings.Contains(string(script), "\n"+line+"\n") {
			t.Errorf("scripts/tools.sh has no line %q", line)
		}
	}
}

// TestServers_StartOnceAndStop: also that nothing listens any more once Stop returned.
func TestServers_StartOnceAndStop(t *testing.T) {
	servers := []*S3{MinIO(t), MinIOTLS(t), SeaweedFS(t), VersityGW(t)}
	for _, s := range servers {
		if s.Client(t) != s.Client(t) {
			t.Errorf("%s: a test has two clients, each with connections of its own", s.Name)
		}
		if got := s.Objects(t, s.Bucket(t)); len(got) != 0 {
			t.Errorf("%s: a new bucket holds %v", s.Name, got)
		}
	}
	azurite, gcs := Azurite(t), FakeGCS(t)
	if got := gcs.Objects(t, gcs.Bucket(t)); strings.Contains(got, "name") {
		t.Errorf("a new bucket holds %s", got)
	}
	if a, b := azurite.Container(t), azurite.Container(t); a == b {
		t.Errorf("the same container twice: %s", a)
	}
	if MinIO(t) != servers[0] {
		t.Error("a second MinIO was started")
	}
	weed, _ := strings.CutPrefix(servers[2].Endpoint, "http://127.0.0.1:")
	sockets := "/tmp/seaweedfs-*-" + weed + ".sock"
	if all, _ := filepath.Glob(sockets); len(all) == 0 {
		t.Errorf("SeaweedFS has no %s", sockets)
	}
	Stop()
	if left, _ := filepath.Glob(sockets); len(left) > 0 {
		t.Errorf("SeaweedFS has left %s", left)
	}
	endpoints := []string{azurite.Endpoint, gcs.Endpoint}
	for _, s := range servers {
		endpoints = append(endpoints, s.Endpoint)
	}
	for _, endpoint := range endpoints {
		_, addr, _ := strings.Cut(endpoint, "://")
		addr, _, _ = strings.Cut(addr, "/")
		deadline := time.Now().Add(10 * time.Second)
		for {
			c, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
			if err != nil {
				break
			}
			_ = c.Close()
			if time.Now().After(deadline) {
				t.Errorf("a server still listens on %s", addr)
				break
			}
		}
	}
}

func TestProcess_ThatDoesNotStartSaysWhy(t *testing.T) {
	p, err := start(t.TempDir(), nil, "/bin/sh", "-c", "echo cannot open the shop")
	if err != nil {
		t.Fatal(err)
	}
	for !bytes.Contains(p.tail(), []byte("shop")) {
		runtime.Gosched() // until it has said so
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := p.ready(ctx, "http://127.0.0.1:1/"); err == nil || !strings.Contains(err.Error(), "cannot open the shop") {
		t.Errorf("got %v", err)
	}
	p.stop()
}

// TestProcess_SaysWhatItSaidAfterItsEnd: the servers of a test end before the test can say why it failed.
func TestProcess_SaysWhatItSaidAfterItsEnd(t *testing.T) {
	p, err := start(t.TempDir(), nil, "/bin/sh", "-c", "echo here I am; exec sleep 600")
	if err != nil {
		t.Fatal(err)
	}
	err = p.says(t.Context(), "here I am")
	p.stop()
	if err != nil {
		t.Fatal(err)
	}
	if got := string(p.tail()); got != "here I am" {
		t.Errorf("after its end it said %q, want %q", got, "here I am")
	}
}

// TestProcess_TerminateExcusesWhatCannotEnd: a server that ignores SIGTERM is killed, which is an error only as long as nothing has excused it.
func TestProcess_TerminateExcusesWhatCannotEnd(t *testing.T) {
	excused := make(chan struct{})
	close(excused)
	for name, tc := range map[string]struct {
		within  time.Duration
		excused chan struct{}
		bad     bool
	}{
		"not excused": {10 * time.Millisecond, nil, true},
		"excused":     {time.Hour, excused, false},
	} {
		p, err := start(t.TempDir(), nil, "/bin/sh", "-c", "trap '' TERM; echo deaf; exec sleep 600")
		if err != nil {
			t.Fatal(err)
		}
		for !bytes.Contains(p.tail(), []byte("deaf")) {
			runtime.Gosched()
		}
		if err := p.terminate(tc.within, tc.excused, 10*time.Millisecond); (err != nil) != tc.bad {
			t.Errorf("%s: %v", name, err)
		}
		p.stop()
	}
}
