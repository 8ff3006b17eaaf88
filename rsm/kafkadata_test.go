package rsm

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	mathrand "math/rand/v2"
	"os"
	"testing"
)

// kafkaData is n bytes of what a Kafka segment with JSON events looks like: record batches of about 16 KiB, not compressed, of order events of
// 0.4 to 0.8 KB with ids that do not compress and fields that do. The last batch is cut. It is the same for the same seed.
func kafkaData(seed uint64, n int) []byte {
	g := &kafkaGen{r: mathrand.New(mathrand.NewPCG(seed, 11))}
	out := make([]byte, 0, n+(32<<10))
	for len(out) < n {
		out = g.batch(out)
	}
	return out[:n:n]
}

type kafkaGen struct {
	r      *mathrand.Rand
	offset int64
	time   int64
	event  []byte
	body   []byte
}

var (
	genStatus   = []string{"CREATED", "PAID", "PACKED", "SHIPPED", "DELIVERED", "RETURNED", "CANCELLED"}
	genCountry  = []string{"DE", "FR", "FI", "US", "JP", "BR", "IN", "ZA"}
	genProducts = []string{"espresso machine", "running shoes", "desk lamp", "usb cable 2m", "cast iron pan", "travel mug", "phone case", "board game"}
	genStreet   = []string{"Main Street", "High Street", "Station Road", "Mill Lane", "Park Avenue", "Church Street", "River View"}
)

// batch appends one record batch (message format 2).
func (g *kafkaGen) batch(out []byte) []byte {
	const header = 61
	base := 1_700_000_000_000 + g.time
	g.body = g.body[:0]
	count := int64(0)
	for len(g.body) < 16<<10-700 {
		g.json()
		rec := []byte{0} // attributes
		rec = binary.AppendVarint(rec, g.time+1_700_000_000_000-base)
		rec = binary.AppendVarint(rec, count)
		key := fmt.Appendf(nil, "order-%d", g.offset+count)
		rec = binary.AppendVarint(rec, int64(len(key)))
		rec = append(rec, key...)
		rec = binary.AppendVarint(rec, int64(len(g.event)))
		rec = append(rec, g.event...)
		rec = binary.AppendVarint(rec, 0) // headers
		g.body = binary.AppendVarint(g.body, int64(len(rec)))
		g.body = append(g.body, rec...)
		g.time += int64(g.r.IntN(20))
		count++
	}
	h := make([]byte, header)
	be := binary.BigEndian
	be.PutUint64(h[0:], uint64(g.offset))
	be.PutUint32(h[8:], uint32(header-12+len(g.body)))
	h[16] = 2
	be.PutUint32(h[23:], uint32(count-1))
	be.PutUint64(h[27:], uint64(base))
	be.PutUint64(h[35:], uint64(1_700_000_000_000+g.time))
	be.PutUint64(h[43:], ^uint64(0))
	be.PutUint16(h[51:], ^uint16(0))
	be.PutUint32(h[53:], ^uint32(0))
	be.PutUint32(h[57:], uint32(count))
	be.PutUint32(h[17:], crc32.Update(crc32.Checksum(h[21:], castagnoli), castagnoli, g.body))
	g.offset += count
	return append(append(out, h...), g.body...)
}

func (g *kafkaGen) json() {
	r := g.r
	e := fmt.Appendf(g.event[:0], `{"eventId":"%016x%016x","type":"order.%s","orderId":%d,"customer":{"id":%d,"country":"%s","email":"user%d@example.com","loyalty":%t},`,
		r.Uint64(), r.Uint64(), genStatus[r.IntN(len(genStatus))], 10_000_000+r.IntN(9_000_000), r.IntN(500_000), genCountry[r.IntN(len(genCountry))], r.IntN(500_000), r.IntN(2) == 0)
	e = append(e, `"items":[`...)
	for i := range 1 + r.IntN(4) {
		if i > 0 {
			e = append(e, ',')
		}
		e = fmt.Appendf(e, `{"sku":"SKU-%05d","name":"%s","quantity":%d,"unitPrice":%d.%02d}`, r.IntN(40_000), genProducts[r.IntN(len(genProducts))], 1+r.IntN(3), r.IntN(300), r.IntN(100))
	}
	g.event = fmt.Appendf(e, `],"total":%d.%02d,"currency":"EUR","shipping":{"street":"%s %d","zip":"%05d"},"traceId":"%016x","createdAt":%d}`,
		r.IntN(900), r.IntN(100), genStreet[r.IntN(len(genStreet))], 1+r.IntN(200), r.IntN(100_000), r.Uint64(), 1_700_000_000_000+g.time)
}

// kafkaFile writes size bytes of unit, again and again, to a file, and returns its path. Chunks do not see that they repeat: unit is a
// multiple of the chunk size and chunks are compressed one by one.
func kafkaFile(t testing.TB, unit []byte, size int64) string {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "segment-*.log")
	if err != nil {
		t.Fatal(err)
	}
	for left := size; left > 0 && err == nil; left -= int64(len(unit)) {
		_, err = f.Write(unit[:min(left, int64(len(unit)))])
	}
	if cerr := f.Close(); err != nil || cerr != nil {
		t.Fatal(err, cerr)
	}
	return f.Name()
}
