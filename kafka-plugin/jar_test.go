package kafkaplugin

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/tierkit/tierkit/internal/testbed"
)

const (
	maxJarBytes = 100_000
	java8       = 52 // class file version, JVMS table 4.1-A
	ownPackage  = "io/github/tierkit/kafka/"
)

// movedIn44 is the package of kafka-clients of which Kafka 4.4 moved 32 classes.
var movedIn44 = []string{"org/apache/kafka/common/utils", "org.apache.kafka.common.utils"}

// classes returns the class files of the jar.
func classes(t *testing.T, jar string) map[string][]byte {
	t.Helper()
	z, err := zip.OpenReader(jar)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	found := map[string][]byte{}
	for _, f := range z.File {
		if path.Ext(f.Name) != ".class" {
			continue
		}
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err = errors.Join(err, r.Close()); err != nil {
			t.Fatal(err)
		}
		found[f.Name] = b
	}
	return found
}

// constants are the strings of a class's constant pool: the names of all that it refers to, and its text. JVMS 4.4.
func constants(class []byte) (version int, texts []string, err error) {
	const head = 10
	if len(class) < head || binary.BigEndian.Uint32(class) != 0xCAFEBABE {
		return 0, nil, errors.New("no class file")
	}
	version = int(binary.BigEndian.Uint16(class[6:]))
	// Bytes behind the tag of each kind of constant but Utf8.
	sizes := map[byte]int{3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
	r := bytes.NewReader(class[head:])
	for n := int(binary.BigEndian.Uint16(class[8:])) - 1; n > 0; n-- {
		tag, err := r.ReadByte()
		if err != nil {
			return 0, nil, err
		}
		size, ok := sizes[tag]
		switch {
		case tag == 1:
			var length uint16
			if err := binary.Read(r, binary.BigEndian, &length); err != nil {
				return 0, nil, err
			}
			size = int(length)
		case !ok:
			return 0, nil, errors.New("a constant of an unknown kind")
		case tag == 5 || tag == 6:
			n-- // eight bytes take two entries
		}
		b := make([]byte, size)
		if _, err := io.ReadFull(r, b); err != nil {
			return 0, nil, err
		}
		if tag == 1 {
			texts = append(texts, string(b))
		}
	}
	return version, texts, nil
}

// TestJar_FitsEveryBroker also builds it, which takes long on a new machine; scripts/test.sh runs it beside the building of other tools.
func TestJar_FitsEveryBroker(t *testing.T) {
	jar := testbed.PluginJar(t)
	info, err := os.Stat(jar)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() >= maxJarBytes {
		t.Errorf("the jar has %d bytes, want less than %d", info.Size(), maxJarBytes)
	}
	found := classes(t, jar)
	if found[ownPackage+"RemoteStorageManager.class"] == nil {
		t.Fatalf("no RemoteStorageManager among %d classes", len(found))
	}
	for name, class := range found {
		if !strings.HasPrefix(name, ownPackage) {
			t.Errorf("the jar holds %s: what a broker has must not be brought, what it lacks must not be needed", name)
		}
		version, texts, err := constants(class)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if version != java8 {
			t.Errorf("%s has class file version %d, want %d", name, version, java8)
		}
		for _, bad := range mentions(texts, movedIn44) {
			t.Errorf("%s mentions %s, which Kafka 4.4 has moved", name, bad)
		}
	}
}

func mentions(texts, banned []string) []string {
	var found []string
	for _, text := range texts {
		for _, b := range banned {
			if strings.Contains(text, b) {
				found = append(found, text)
			}
		}
	}
	return found
}

// TestJar_ForbiddenNamesWouldBeSeen looks at the plug-in's own class for a name that it does use.
func TestJar_ForbiddenNamesWouldBeSeen(t *testing.T) {
	class := classes(t, testbed.PluginJar(t))[ownPackage+"RemoteStorageManager.class"]
	_, texts, err := constants(class)
	if err != nil {
		t.Fatal(err)
	}
	for _, used := range []string{"org/apache/kafka/common/config", "org/apache/kafka/server/log/remote/storage"} {
		if len(mentions(texts, []string{used})) == 0 {
			t.Errorf("%s is not seen among %d constants", used, len(texts))
		}
	}
}
