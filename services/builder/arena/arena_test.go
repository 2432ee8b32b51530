package arena_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"slipway.dev/services/builder/arena"
)

type record struct {
	id   uint32
	kind byte
	at   uint64
}

// TestTables writes and reads each kind of table across several chunks, and returns all of
// the budget.
func TestTables(t *testing.T) {
	t.Parallel()
	budget := arena.NewBudget(0)
	a := arena.New(budget)
	records, names, raw := arena.NewTable[record](a), arena.NewStrings(a), arena.NewBytes(a)
	var want bytes.Buffer
	name := func(i int) string { return strings.Repeat("n", i%5000) }
	first, n := (*record)(nil), 20_000
	ids := make([]uint32, n)
	for i := range n {
		id, r, err := records.Add()
		if err != nil || id != uint32(i) || *r != (record{}) {
			t.Fatalf("record %d is %d, %+v, %v", i, id, r, err)
		}
		if *r = (record{id, byte(i), uint64(i) << 40}); i == 0 {
			first = r
		}
		if ids[i], err = names.Add(name(i)); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&want, i)
		fmt.Fprintln(raw, i)
	}
	for i := range n {
		if r := records.At(uint32(i)); *r != (record{uint32(i), byte(i), uint64(i) << 40}) {
			t.Fatalf("record %d became %+v", i, r)
		}
		if got := names.At(ids[i]); got != name(i) {
			t.Fatalf("string %d has %d bytes", i, len(got))
		}
	}
	var got bytes.Buffer
	if n, err := raw.WriteTo(&got); err != nil || n != raw.Len() || got.String() != want.String() {
		t.Errorf("%d bytes were written, %v, want %d", n, err, want.Len())
	}
	if first != records.At(0) || records.Len() != n {
		t.Error("a record was moved")
	}
	if budget.Used() < int64(n*16) {
		t.Errorf("%d bytes were charged", budget.Used())
	}
	a.Close()
	if budget.Used() != 0 {
		t.Errorf("%d bytes are still charged", budget.Used())
	}
}

// TestIndex compares an index with a map.
func TestIndex(t *testing.T) {
	t.Parallel()
	a := arena.New(nil)
	defer a.Close()
	var keys []uint64
	hash := func(key uint64) uint64 { return key / 3 * 0x9e3779b97f4a7c15 >> 20 } // some collide
	x := arena.NewIndex(a, func(id uint32) uint64 { return hash(keys[id]) })
	want, r := map[uint64]uint32{}, rand.New(rand.NewPCG(1, 2))
	for range 30_000 {
		key := r.Uint64N(20_000)
		old, ok := x.Find(hash(key), func(id uint32) bool { return keys[id] == key })
		if w, known := want[key]; known != ok || ok && w != old {
			t.Fatalf("%d is at %d, %v; want %d, %v", key, old, ok, w, known)
		}
		id := uint32(len(keys))
		keys = append(keys, key)
		want[key] = id
		if ok {
			x.Replace(hash(key), old, id)
		} else if err := x.Add(hash(key), id); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBudget checks that allocations beyond a budget are rejected, also when two arenas
// share it.
func TestBudget(t *testing.T) {
	t.Parallel()
	budget := arena.NewBudget(1 << 20)
	one, two := arena.New(budget), arena.New(budget)
	defer one.Close()
	if err := two.Charge(1 << 19); err != nil {
		t.Fatal(err)
	}
	raw, n := arena.NewBytes(one), 0
	var err error
	for ; err == nil; n++ {
		_, err = raw.Write(make([]byte, 1<<10))
	}
	if !arena.IsFull(err) || n != 513 {
		t.Errorf("after %d KiB the error is %v", n, err)
	}
	two.Close()
	if _, err := raw.Write(make([]byte, 1<<10)); err != nil {
		t.Errorf("released memory is not available: %v", err)
	}
}
