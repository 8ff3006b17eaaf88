package peakrss

import (
	"os"
	"runtime"
	"testing"

	"github.com/tierkit/tierkit/internal/need"
)

func TestOf_GrowsWithWhatIsTouched(t *testing.T) {
	if runtime.GOOS != "linux" {
		need.Never(t, "the peak of a process's memory is read from /proc")
	}
	before, err := Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	const size = 64 << 20
	block := make([]byte, size)
	for i := range block {
		block[i] = 1
	}
	after, err := Of(os.Getpid())
	if err != nil || after < size || after < before {
		t.Errorf("%d bytes before, %d after %d were touched, %v", before, after, size, err)
	}
	runtime.KeepAlive(block)
	if _, err := Of(-1); err == nil {
		t.Error("a process that cannot be has had memory")
	}
}
