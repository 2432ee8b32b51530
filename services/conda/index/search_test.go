package index_test

import (
	"slices"
	"strings"
	"testing"

	"slipway.dev/services/conda/index"
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
		"samtools": {"samtools", "samtools-extra", "perl-bio-samtools", "r-samtools", "zsamtools", "bamtools", "samtool"},
		"SAMTOOLS": {"samtools", "samtools-extra", "perl-bio-samtools", "r-samtools", "zsamtools", "bamtools", "samtool"},
		"samtols":  {"samtools"},
		"hts":      {"htslib"},
		"htlsib":   {"htslib"},
		"nothing":  nil,
	} {
		var got []string
		for _, m := range x.Search(text) {
			got = append(got, m.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("search for %s: got %q, want %q", text, got, want)
		}
	}
	if got := len(x.Search("")); got != 8 {
		t.Errorf("a search for nothing finds %d of 8 names", got)
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
