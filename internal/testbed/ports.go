package testbed

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
)

// Servers get ports below those that systems give to outgoing connections (Linux from 32768, macOS from 49152): a port of that range that is free now may
// be some connection's own before a slow server binds it, and the server then ends, perhaps long after it said that it was ready.
//
// Test binaries run side by side, and a port that is free when a server is about to start may be taken by another binary's server first, which then answers
// in its place. So each binary claims blocks of ports: who listens on the first port of a block owns the rest of it.
const (
	lowestPort   = 20_000
	highestPort  = 32_000
	portsOfBlock = 48
)

// claimed is the blocks of this process; they are given back by its end.
var claimed struct {
	mu     sync.Mutex
	owners []net.Listener
	free   []int // the ports of the blocks, the one that was given out longest ago first
}

// freePorts returns ports that nobody listens on just now, and that no other test binary gives to its servers.
func freePorts(n int) ([]int, error) {
	claimed.mu.Lock()
	defer claimed.mu.Unlock()
	var found []int
	for {
		for range len(claimed.free) {
			if len(found) == n {
				return found, nil
			}
			port := claimed.free[0]
			claimed.free = append(claimed.free[1:], port)
			if l, err := listen(port); err == nil {
				_ = l.Close()
				found = append(found, port)
			}
		}
		if len(found) == n {
			return found, nil
		}
		found = nil
		if err := claimBlock(); err != nil {
			return nil, err
		}
	}
}

// Ports returns ports for a server of a test's own, which may leave them for a while and come back.
func Ports(t testing.TB, n int) []int {
	t.Helper()
	ports, err := freePorts(n)
	if err != nil {
		t.Fatal(err)
	}
	return ports
}

// claimBlock makes a block ours that is nobody's.
func claimBlock() error {
	const blocks = (highestPort - lowestPort) / portsOfBlock
	first := rand.IntN(blocks)
	for i := range blocks {
		port := lowestPort + (first+i)%blocks*portsOfBlock
		owner, err := listen(port)
		if err != nil {
			continue
		}
		claimed.owners = append(claimed.owners, owner)
		for p := port + 1; p < port+portsOfBlock; p++ {
			claimed.free = append(claimed.free, p)
		}
		return nil
	}
	return errors.New("no block of ports is free")
}

func listen(port int) (net.Listener, error) {
	var lc net.ListenConfig
	return lc.Listen(context.Background(), "tcp", "127.0.0.1:"+strconv.Itoa(port))
}
