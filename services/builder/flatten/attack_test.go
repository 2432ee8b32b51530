package flatten

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"slipway.dev/services/internal/testkit/heap"
)

// long returns a name with as many parent directories as a path can have.
func long(i int) string { return fmt.Sprintf("%d/", i) + strings.Repeat("d/", 2000) + "f" }

// TestNamesAreBounded reads layers of few entries that name millions of directories: as
// entries, as links, and as whiteouts.
func TestNamesAreBounded(t *testing.T) {
	few := Limits{Bytes: 1 << 30, Entries: 20_000, Names: 20_000, NameBytes: 1 << 20}
	entries := func(f func(i int) *tar.Header) []byte {
		list := []*tar.Header{file("target", "x")}
		for i := range 1000 {
			list = append(list, f(i))
		}
		return archive(t, list...)
	}
	for _, tc := range []struct {
		name, want string
		layers     [][]byte
	}{
		{"files", "names", [][]byte{entries(func(i int) *tar.Header { return file(long(i), "x") })}},
		{"folders", "names", [][]byte{entries(func(i int) *tar.Header { return dir(long(i)) })}},
		{"symbolic links", "names", [][]byte{entries(func(i int) *tar.Header { return soft(long(i), "x") })}},
		{"hard links", "names", [][]byte{entries(func(i int) *tar.Header { return hard(long(i), "target") })}},
		{"long names", "MiB in total", [][]byte{entries(func(i int) *tar.Header {
			return file(fmt.Sprintf("%0250d/%0250d/%0250d/%0250d/%0250d", i, i, i, i, i), "x")
		})}},
	} {
		for name, write := range map[string]writing{"once": writeOnce, "twice": writeTwice} {
			var in []byte
			for _, l := range tc.layers {
				in = append(in, l...)
			}
			heap.Within(t, 8, 32<<20, in, func() {
				_, err := write(t.Context(), io.Discard, layersOf(tc.layers...), few)
				var r *Refusal
				if !errors.As(err, &r) || !strings.Contains(r.Reason, tc.want) {
					t.Errorf("%s, %s: got %v", tc.name, name, err)
				}
			})
		}
	}
}

// TestWhiteoutsAreBounded removes missing names that have as many parent directories as
// possible.
func TestWhiteoutsAreBounded(t *testing.T) {
	few := Limits{Entries: 20_000, Names: 20_000, NameBytes: 1 << 20}
	var list []*tar.Header
	for i := range 1000 {
		list = append(list, gone(strings.TrimSuffix(long(i), "f")+".wh.f"))
	}
	in := archive(t, list...)
	heap.Within(t, 8, 32<<20, in, func() {
		var r *Refusal
		if _, err := writeOnce(t.Context(), io.Discard, layersOf(in), few); !errors.As(err, &r) {
			t.Errorf("got %v", err)
		}
		if _, err := writeTwice(t.Context(), io.Discard, layersOf(in), few); err != nil {
			t.Errorf("got %v", err)
		}
	})
}

// TestManyOpaqueWhiteoutsTakeNoTime empties a directory as often as it has files.
func TestManyOpaqueWhiteoutsTakeNoTime(t *testing.T) {
	t.Parallel()
	var list []*tar.Header
	for i := range 20_000 {
		list = append(list, file(fmt.Sprintf("d/%d", i), ""))
	}
	for range 20_000 {
		list = append(list, gone("d/.wh..wh..opq"))
	}
	layers := layersOf(archive(t, dir("d")), archive(t, list...))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, err := writeTwice(ctx, io.Discard, layers, Limits{}); err != nil {
		t.Errorf("got %v", err)
	}
}

// FuzzMemory checks that memory stays in proportion to the layers.
func FuzzMemory(f *testing.F) {
	f.Add(archive(f, dir("d"), file("d/f", "x"), hard("b", "d/f")), archive(f, gone(".wh.b"), gone("d/.wh..wh..opq")))
	f.Add(archive(f, file(long(1), "x")), zipped(f, archive(f, file(long(2), "new"))))
	limits := Limits{Bytes: 1 << 20, Entries: 1000, Names: 2000, NameBytes: 1 << 16}
	f.Fuzz(func(t *testing.T, lower, upper []byte) {
		for _, write := range []writing{writeOnce, writeTwice} {
			heap.Within(t, 64, 80<<20, append(lower[:len(lower):len(lower)], upper...), func() {
				_, _ = write(t.Context(), io.Discard, layersOf(lower, upper), limits)
			})
		}
	})
}
