package oci_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
)

func composition(t testing.TB, pieces ...oci.Piece) []byte {
	t.Helper()
	raw, err := json.Marshal(oci.Composition{MediaType: oci.TypeComposition, Pieces: pieces})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestParseComposition checks which positions are accepted.
func TestParseComposition(t *testing.T) {
	t.Parallel()
	a, b := digest.FromString("a"), digest.FromString("b")
	for _, tc := range []struct {
		name   string
		pieces []oci.Piece
		ok     bool
	}{
		{"one", []oci.Piece{{a, 0, 1}}, true},
		{"adjacent, in another order", []oci.Piece{{a, 5, 5}, {b, 0, 9}, {a, 0, 5}}, true},
		{"equal positions of two blobs", []oci.Piece{{a, 5, 5}, {b, 5, 5}}, true},
		{"one byte twice", []oci.Piece{{a, 5, 5}, {b, 0, 9}, {a, 0, 6}}, false},
		{"the same twice", []oci.Piece{{a, 5, 5}, {a, 5, 5}}, false},
		{"one inside of another", []oci.Piece{{a, 0, 50}, {a, 5, 5}}, false},
		{"the longest", []oci.Piece{{a, 0, limits.ComposedBlob}}, true},
		{"too long", []oci.Piece{{a, 0, limits.ComposedBlob}, {b, 0, 1}}, false},
		{"none", nil, false},
	} {
		if _, err := oci.ParseComposition(composition(t, tc.pieces...)); (err == nil) != tc.ok {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

// TestParseMostPieces parses the longest list of pieces, and the next longer one.
func TestParseMostPieces(t *testing.T) {
	t.Parallel()
	var pieces []oci.Piece
	for i := range limits.CompositionPieces {
		pieces = append(pieces, oci.Piece{Digest: digest.FromString("a"), Offset: int64(i), Length: 1})
	}
	if _, err := oci.ParseComposition(composition(t, pieces...)); err != nil {
		t.Error(err)
	}
	if _, err := oci.ParseComposition(composition(t, append(pieces, oci.Piece{Digest: digest.FromString("b"), Length: 1})...)); err == nil {
		t.Error("too many pieces were accepted")
	}
}

// BenchmarkParseHostileComposition parses a document that would take 20 times its size in memory as
// decoded. TestAttackParseComposition limits that.
func BenchmarkParseHostileComposition(b *testing.B) {
	raw := hostile()
	b.ReportAllocs()
	for b.Loop() {
		_, _ = oci.ParseComposition(raw)
	}
}

// hostile returns a composition with the largest number of pieces that its size allows.
func hostile() []byte {
	head, tail := `{"mediaType":"`+oci.TypeComposition+`","pieces":[0`, `]}`
	return []byte(head + strings.Repeat(",0", (limits.Composition-len(head)-len(tail))/2) + tail)
}

// TestAttackParseComposition checks that a document does not take much more memory than its own size.
func TestAttackParseComposition(t *testing.T) { //nolint:paralleltest // it measures
	if used := testing.Benchmark(BenchmarkParseHostileComposition).AllocedBytesPerOp(); used > limits.Composition {
		t.Errorf("a document of %d bytes takes %d bytes of memory", limits.Composition, used)
	}
}

// FuzzParseComposition checks that an accepted composition is within all limits, and is the same after
// it was written again.
func FuzzParseComposition(f *testing.F) {
	f.Add(composition(f, oci.Piece{Digest: digest.FromString("a"), Offset: 3, Length: 4}))
	f.Add(composition(f, oci.Piece{Digest: digest.FromString("a"), Offset: 1 << 62, Length: 1 << 62}))
	f.Add([]byte(`{"mediaType":"` + oci.TypeComposition + `","pieces":[{"digest":"sha256:` + strings.Repeat("0", 64) + `","offset":9223372036854775807,"length":1}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := oci.ParseComposition(raw)
		if err != nil {
			return
		}
		if c.Size() < 1 || c.Size() > limits.ComposedBlob || len(c.Pieces) > limits.CompositionPieces {
			t.Fatalf("%d pieces have %d bytes", len(c.Pieces), c.Size())
		}
		ends := int64(0)
		for d, end := range c.Blobs() {
			if d.Validate() != nil || end < 1 {
				t.Fatalf("%s is used up to %d", d, end)
			}
			ends += end
		}
		if ends < c.Size() {
			t.Fatalf("%d bytes are made of %d", c.Size(), ends)
		}
		again, err := oci.ParseComposition(composition(t, c.Pieces...))
		if err != nil || len(again.Pieces) != len(c.Pieces) || again.Size() != c.Size() {
			t.Fatalf("%+v, %v", again, err)
		}
	})
}
