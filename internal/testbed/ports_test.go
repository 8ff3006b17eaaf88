package testbed

import (
	"net"
	"slices"
	"testing"
)

// TestFreePorts_AreOfBlocksThatAreOurs: no port twice in a row, none that is taken, and another block when one is used up.
func TestFreePorts_AreOfBlocksThatAreOurs(t *testing.T) {
	var seen []int
	for range 3 {
		ports, err := freePorts(8)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range ports {
			if slices.Contains(seen, p) {
				t.Errorf("port %d was given out before", p)
			}
			if p <= lowestPort || p >= highestPort || (p-lowestPort)%portsOfBlock == 0 {
				t.Errorf("port %d is none to give out", p)
			}
			l, err := listen(p)
			if err != nil {
				t.Errorf("port %d is taken: %v", p, err)
				continue
			}
			defer l.Close()
		}
		seen = append(seen, ports...)
	}
	more, err := freePorts(portsOfBlock)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range more {
		if slices.Contains(seen, p) {
			t.Errorf("port %d was given out while somebody listens on it", p)
		}
	}
	for _, owner := range claimed.owners {
		if _, err := listen(owner.Addr().(*net.TCPAddr).Port); err == nil { //nolint:forcetypeassert // listen gives no other
			t.Errorf("%s is not kept", owner.Addr())
		}
	}
}
