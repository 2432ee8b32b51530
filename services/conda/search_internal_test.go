package conda

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"slipway.dev/services/conda/channel"
	"slipway.dev/services/conda/index"
)

// A result is what a test compares of a hit.
type result struct {
	Name, Channel string
	Lists         []string
	Dependents    int
}

// randomList returns a list of random names that depend on each other.
func randomList(t *testing.T, random *rand.Rand, name, subdir string) list {
	t.Helper()
	word := func() string {
		b := make([]byte, 1+random.IntN(5))
		for i := range b {
			b[i] = "abc"[random.IntN(3)]
		}
		return string(b)
	}
	var text strings.Builder
	for i := range random.IntN(60) {
		if i > 0 {
			text.WriteByte(',')
		}
		fmt.Fprintf(&text, `"%d.conda":{"name":%q,"version":"1","build":"0","depends":[%q,%q]}`, i, word(), word()[:1], word())
	}
	path := filepath.Join(t.TempDir(), "x.idx")
	if _, err := index.Build(path, strings.NewReader(`{"packages.conda":{`+text.String()+`}}`), index.Meta{}, func(*index.Meta) error { return nil }); err != nil {
		t.Fatal(err)
	}
	x, err := index.Open(path, index.Place{Channel: name, Subdir: subdir, Folder: "https://example.org/" + name + "/" + subdir + "/"})
	if err != nil {
		t.Fatal(err)
	}
	return list{channel: channel.Channel{Name: name, URL: "https://example.org/" + name}, subdir: subdir, State: channel.State{Index: x}}
}

// rankOf returns the rank of a name, and whether it matches.
func rankOf(text, name string) (index.Rank, bool) {
	switch {
	case name == text:
		return index.Exact, true
	case strings.HasPrefix(name, text):
		return index.Prefix, true
	case strings.Contains(name, text):
		return index.Within, true
	case len(text) < 3:
		return 0, false
	}
	for i := range len(text) + 1 {
		rest := text[i:]
		for _, c := range "abc" {
			if text[:i]+string(c)+rest == name || rest != "" && text[:i]+string(c)+rest[1:] == name {
				return index.Similar, true
			}
		}
		if rest != "" && text[:i]+rest[1:] == name || len(rest) > 1 && text[:i]+rest[1:2]+rest[:1]+rest[2:] == name {
			return index.Similar, true
		}
	}
	return 0, false
}

// searchLinearly reads each name of each list, and sorts all matches.
func searchLinearly(t *testing.T, lists []list, text string) []result {
	t.Helper()
	type match struct {
		result
		rank    index.Rank
		channel int
	}
	found := map[[2]string]*match{}
	for i, l := range lists {
		if l.Index == nil {
			continue
		}
		for at := range l.Index.Len() {
			name, err := l.Index.NameAt(at)
			if err != nil {
				t.Fatal(err)
			}
			rank, ok := rankOf(strings.ToLower(text), name)
			if !ok {
				continue
			}
			key := [2]string{l.channel.URL, name}
			if found[key] == nil {
				found[key] = &match{result{Name: name, Channel: l.channel.Name}, rank, i}
				for _, among := range lists {
					if among.Index == nil {
						continue
					}
					n, err := among.Index.Dependents(name)
					if err != nil {
						t.Fatal(err)
					}
					found[key].Dependents += n
				}
			}
			found[key].Lists = append(found[key].Lists, l.at())
		}
	}
	var all []*match
	for _, m := range found {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b *match) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(b.Dependents, a.Dependents), strings.Compare(a.Name, b.Name), cmp.Compare(a.channel, b.channel))
	})
	var out []result
	for _, m := range all {
		out = append(out, m.result)
	}
	return out
}

// TestSearchReturnsWhatALinearSearchReturns compares pages of results with those of a search that
// reads each name.
func TestSearchReturnsWhatALinearSearchReturns(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	for range 15 {
		lists := []list{
			randomList(t, random, "one", "linux-64"), randomList(t, random, "one", "noarch"),
			{channel: channel.Channel{Name: "two", URL: "https://example.org/two"}, subdir: "linux-64"}, randomList(t, random, "two", "noarch"),
		}
		for _, text := range []string{"", "a", "AB", "abc", "bca", "abca", "none", "aaaa"} {
			want := searchLinearly(t, lists, text)
			for _, page := range [][2]int{{0, 3}, {0, 1000}, {2, 5}, {len(want) / 2, 4}, {len(want), 4}, {len(want) + 7, 4}} {
				total, hits, err := search(t.Context(), lists, text, page[0], page[1])
				if err != nil {
					t.Fatal(err)
				}
				var got []result
				for _, h := range hits {
					r := result{Name: h.name, Channel: h.channel.Name, Dependents: h.dependents}
					for _, l := range h.lists {
						r.Lists = append(r.Lists, l.at())
					}
					got = append(got, r)
				}
				expected := want[min(page[0], len(want)):min(page[0]+page[1], len(want))]
				if fmt.Sprint(got) != fmt.Sprint(expected) || total != len(want) {
					t.Errorf("%q at %v: got %d results, %+v; want %d, %+v", text, page, total, got, len(want), expected)
				}
			}
		}
	}
}
