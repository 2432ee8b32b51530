package index_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"slipway.dev/services/conda/index"
)

// compareSearches compares searches for a text with those that look at each name.
func compareSearches(t *testing.T, x *index.Index, text string) {
	t.Helper()
	var at []int
	var ranks []index.Rank
	for s := x.Search(text); ; {
		ok, err := s.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		at, ranks = append(at, s.At()), append(ranks, s.Rank())
		if name, err := x.NameAt(s.At()); err != nil || name != string(s.Name()) {
			t.Errorf("%q is at the position of %q, %v", s.Name(), name, err)
		}
	}
	wantAt, wantRanks := x.LinearSearch(strings.ToLower(text))
	if !slices.Equal(at, wantAt) || !slices.Equal(ranks, wantRanks) {
		t.Errorf("%q: got %v %v, want %v %v", text, at, ranks, wantAt, wantRanks)
	}
	for _, most := range []int{0, 2, 1000} {
		near, err := x.Near(text, most)
		if want := x.LinearNear(text, most); err != nil || !slices.Equal(near, want) {
			t.Errorf("near %q: got %q, %v; want %q", text, near, err, want)
		}
	}
}

// withNames returns an index of names.
func withNames(t *testing.T, names []string) *index.Index {
	t.Helper()
	var b strings.Builder
	for i, name := range names {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"%d.conda":{"name":%q,"version":"1","build":"0"}`, i, name)
	}
	return build(t, `{"packages.conda":{`+b.String()+`}}`)
}

// TestSearchFindsWhatALinearSearchFinds compares both for random names and texts of few different
// characters, so that many are similar, contain each other, or continue in the next name.
func TestSearchFindsWhatALinearSearchFinds(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 60 {
		letters, longest := 2+round%4, 2+round%9
		word := func() string {
			b := make([]byte, 1+random.IntN(longest))
			for i := range b {
				b[i] = "abc-"[random.IntN(letters)%4]
			}
			return "a" + string(b[1:])
		}
		var names []string
		for range random.IntN(400) {
			names = append(names, word())
		}
		x := withNames(t, names)
		compareSearches(t, x, "")
		for range 200 {
			text := word()[random.IntN(2):]
			compareSearches(t, x, text)
			if len(names) > 0 {
				name := names[random.IntN(len(names))]
				i := random.IntN(len(name))
				compareSearches(t, x, name)
				compareSearches(t, x, name[i:])
				compareSearches(t, x, name[:i])
				compareSearches(t, x, name[:i]+"z"+name[i:])
			}
		}
	}
}

// FuzzSearch compares searches with linear ones.
func FuzzSearch(f *testing.F) {
	f.Add("samtools bamtools r-samtools samtool zsamtools htslib", "samtools")
	f.Add("a ab abc abcd abd bcd acbd abdc b bc", "abcd")
	f.Add("aa aaa aaaa aab aaab aaba abaa baaa", "aaa")
	f.Add("x", "\xff")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, names, text string) {
		var b strings.Builder
		for i, name := range strings.Fields(names) {
			fmt.Fprintf(&b, `,"%d.conda":{"name":%q,"version":"1","build":"0"}`, i, name)
		}
		path := filepath.Join(dir, "x.idx")
		if _, err := index.Build(path, strings.NewReader(`{"packages.conda":{`+strings.TrimPrefix(b.String(), ",")+`}}`), index.Meta{}, done); err != nil {
			return
		}
		x, err := index.Open(path, place())
		if err != nil {
			t.Fatal(err)
		}
		compareSearches(t, x, text)
	})
}

// TestSearchOfShrunkenFile checks that a file truncated while it is mapped results in an error.
func TestSearchOfShrunkenFile(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"zlib", "", "z", strings.Repeat("z", 100)} {
		path := filepath.Join(t.TempDir(), "x.idx")
		if _, err := index.Build(path, strings.NewReader(small), index.Meta{}, done); err != nil {
			t.Fatal(err)
		}
		x, err := index.Open(path, place())
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, 0); err != nil {
			t.Fatal(err)
		}
		if ok, err := x.Search(text).Next(); err == nil {
			t.Errorf("%q: got %v, want an error", text, ok)
		}
		if _, err := x.Dependents("zlib"); err == nil {
			t.Error("dependents are read")
		}
	}
}

// BenchmarkSearch searches 100,000 names: for one that exists, for a misspelt one, for one that
// does not exist, and for a part of each name.
func BenchmarkSearch(b *testing.B) {
	var text strings.Builder
	text.WriteString(`{"packages.conda":{`)
	for i := range 100_000 {
		fmt.Fprintf(&text, `"%[1]d.conda":{"name":"package-%[1]d","version":"1","build":"0"},`, i)
	}
	text.WriteString(`"n.conda":{"name":"needle","version":"1","build":"0"}}}`)
	path := filepath.Join(b.TempDir(), "x.idx")
	if _, err := index.Build(path, strings.NewReader(text.String()), index.Meta{}, done); err != nil {
		b.Fatal(err)
	}
	x, err := index.Open(path, place())
	if err != nil {
		b.Fatal(err)
	}
	search := func(b *testing.B, text string) {
		b.Helper()
		for s := x.Search(text); ; {
			if ok, err := s.Next(); err != nil {
				b.Fatal(err)
			} else if !ok {
				return
			}
		}
	}
	for _, text := range []string{"needle", "nedle", "package-50000", "nothing-of-this", "package"} {
		b.Run(text, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				search(b, text)
			}
		})
		b.Run(text+" linear", func(b *testing.B) {
			for b.Loop() {
				x.LinearSearch(text)
			}
		})
	}
}
