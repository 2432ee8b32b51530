package index_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"slipway.dev/services/conda/index"
	"slipway.dev/services/internal/limits"
)

func TestSearch(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i, name := range []string{"samtools", "bamtools", "r-samtools", "samtools-extra", "samtool", "htslib", "perl-bio-samtools", "zsamtools"} {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`"` + name + `-1-0.conda":{"name":"` + name + `","version":"1","build":"0"}`)
	}
	x := build(t, `{"packages.conda":{`+b.String()+`}}`)
	for text, want := range map[string][]string{
		"samtools": {"bamtools 3", "perl-bio-samtools 2", "r-samtools 2", "samtool 3", "samtools 0", "samtools-extra 1", "zsamtools 2"},
		"SAMTOOLS": {"bamtools 3", "perl-bio-samtools 2", "r-samtools 2", "samtool 3", "samtools 0", "samtools-extra 1", "zsamtools 2"},
		"samtols":  {"samtools 3"},
		"hts":      {"htslib 1"},
		"htlsib":   {"htslib 3"},
		"nothing":  nil,
	} {
		if got := found(t, x, text); !slices.Equal(got, want) {
			t.Errorf("search for %s: got %q, want %q", text, got, want)
		}
	}
	if got := found(t, x, ""); len(got) != 8 {
		t.Errorf("a search for nothing finds %d of 8 names", len(got))
	}
	if near, err := x.Near("samtool", 1); err != nil || !slices.Equal(near, []string{"samtool"}) {
		t.Errorf("near samtool is %q, %v", near, err)
	}
}

// TestDependents checks the number of records that depend on a name, for names that the index
// has and for names that it lacks, and also after shards were copied.
func TestDependents(t *testing.T) {
	t.Parallel()
	x := build(t, `{"packages.conda":{
 "a-1-0.conda":{"name":"a","version":"1","build":"0","depends":["lib >=1","Other::NumPy[version='>2']","__glibc >=2.17","b=1"]},
 "a-2-0.conda":{"name":"a","version":"2","build":"0","depends":["lib","lib <3","\u0062ad"," ",7]},
 "lib-1-0.conda":{"name":"lib","version":"1","build":"0","depends":"none"},
 "bad name":{"name":"bad name","version":"1","build":"0","depends":["lib"]}
}}`)
	for name, want := range map[string]int{"lib": 3, "numpy": 1, "b": 1, "a": 0, "__glibc": 0, "bad": 0, "": 0, "zzz": 0} {
		if n, err := x.Dependents(name); err != nil || n != want {
			t.Errorf("%d records depend on %q, want %d; %v", n, name, want, err)
		}
	}
}

// TestDependentsOfManyRecords checks the numbers of a list whose dependencies fill several
// blocks, so that the counting runs while the list is read.
func TestDependentsOfManyRecords(t *testing.T) {
	t.Parallel()
	const records, names = 20_000, 50
	var text strings.Builder
	want, size := map[string]int{}, 0
	text.WriteString(`{"packages.conda":{`)
	for i := range records {
		depends := make([]string, 5+i%17)
		for j := range depends {
			name := fmt.Sprint("Lib", (i+j)%names)
			want[strings.ToLower(name)]++
			depends[j] = strconv.Quote(name + " >=1.2." + strconv.Itoa(i))
		}
		list := strings.Join(depends, ", ")
		size += len(list)
		fmt.Fprintf(&text, `"a-1-%d.conda":{"name":"a","version":"1","build":"%d","depends":[%s]},`, i, i, list)
	}
	if size < 4*index.BlockSize {
		t.Fatalf("the dependencies have only %d bytes", size)
	}
	x := build(t, strings.TrimSuffix(text.String(), ",")+"}}")
	for name, n := range want {
		if got, err := x.Dependents(name); err != nil || got != n {
			t.Errorf("%d records depend on %s, want %d; %v", got, name, n, err)
		}
	}
}

// found returns the results of a search with their ranks.
func found(t *testing.T, x *index.Index, text string) (out []string) {
	t.Helper()
	for s := x.Search(text); ; {
		ok, err := s.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return out
		}
		out = append(out, fmt.Sprint(string(s.Name()), " ", int(s.Rank())))
	}
}

// TestNamesAreBounded checks that the names of a list take a limited part of the index,
// whether there are many names or long ones.
func TestNamesAreBounded(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	text.WriteString(`{"packages":{`)
	long := strings.Repeat("x", 200)
	for i := range limits.ChannelNamesBytes/206 + 1000 {
		fmt.Fprintf(&text, `"%d.conda":{"name":"%s%06d","version":"1","build":"0"},`, i, long, i)
	}
	path := filepath.Join(t.TempDir(), "x.idx")
	_, err := index.Build(path, strings.NewReader(strings.TrimSuffix(text.String(), ",")+"}}"), index.Meta{}, done)
	if err == nil || !strings.Contains(err.Error(), "names") {
		t.Errorf("got %v", err)
	}
}

// TestFileOfManyNames checks that a file from before the limit of names is rejected.
func TestFileOfManyNames(t *testing.T) {
	t.Parallel()
	if err := index.ReadAll(index.WithNames(limits.ChannelNamesBytes), place()); err != nil {
		t.Errorf("at the limit of names: %v", err)
	}
	if err := index.ReadAll(index.WithNames(limits.ChannelNamesBytes+1), place()); err == nil {
		t.Error("a file above the limit of names is read")
	}
}

func TestNear(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"bwa", "bwa2", true},
		{"bwa", "bw", true},
		{"bwa", "bva", true},
		{"bwa", "wba", true},
		{"bwa", "bwa", true},
		{"bwa", "abw", false},
		{"bwa", "bwa22", false},
		{"bwa", "xya", false},
		{"ab", "ac", false},
	} {
		if got := index.IsNear(c.a, c.b); got != c.want {
			t.Errorf("near(%s, %s) is %v", c.a, c.b, got)
		}
	}
}
