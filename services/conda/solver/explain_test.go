package solver_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway.dev/services/conda/solver"
	"slipway.dev/services/conda/spec"
)

// made returns a record of a test channel: "name version build", and its dependencies.
func made(text string, needs ...string) spec.Record {
	f := strings.Fields(text)
	r := spec.Record{Name: f[0], Version: f[1], Build: "0", Depends: needs, Subdir: "noarch"}
	if len(f) > 2 {
		r.Build = f[2]
	}
	r.FileName = r.Name + "-" + r.Version + "-" + r.Build + ".conda"
	return r
}

func channel(name string, all ...spec.Record) solver.Channel {
	source := records{}
	for _, r := range all {
		r.Channel = name
		source[r.Name] = append(source[r.Name], r)
	}
	return solver.Channel{Name: name, Sources: []solver.Source{source}}
}

// biology returns a channel of sequence tools.
func biology() solver.Channel {
	return channel("bioconda",
		made("samtools 1.20", "htslib >=1.20,<1.22"), made("samtools 1.19", "htslib >=1.19,<1.20"),
		made("htslib 1.21", "zlib"), made("htslib 1.20", "zlib"), made("htslib 1.19", "zlib"), made("htslib 1.17", "zlib"),
		made("bwa 0.7.18", "zlib >=1.2"), made("zlib 1.3"),
		made("basecaller 7.0", "gpu-runtime"), made("gpu-runtime 12", "__cuda >=12"),
		made("old 1.0", "numpy[when=\"python <3\"]"),
		made("new 1.0", "__glibc >=2.40"),
		made("plugin 1.0", "gone >=2"),
	)
}

// spelling corrects one misspelling, and knows the channels that have bwa.
type spelling struct{ elsewhere []solver.Channel }

func (s spelling) Nearest(name string) []string {
	if name == "samtols" {
		return []string{"samtools"}
	}
	return nil
}

func (s spelling) InOtherChannels(name string) []solver.Channel {
	if name == "bwa" {
		return s.elsewhere
	}
	return nil
}

func (s spelling) Platforms(name string) (string, []string) {
	if name == "star" {
		return "2.7.11b", []string{"linux/amd64"}
	}
	return "", nil
}

func TestExplain(t *testing.T) {
	t.Parallel()
	bio := []solver.Channel{biology()}
	plain := []solver.Channel{channel("conda-forge", made("zlib 1.3"), made("samtools 0.1"))}
	for _, c := range []struct {
		name     string
		channels []solver.Channel
		specs    []string
		// want is the conflict's text, followed by the suggestions after "try: ".
		want string
	}{
		{"two demands", bio, []string{"bwa", "samtools 1.20", "htslib 1.17"}, `
samtools 1.20 needs htslib >=1.20,<1.22, but you asked for htslib 1.17
- you asked for samtools 1.20
  - samtools 1.20 needs htslib >=1.20,<1.22
- you asked for htslib 1.17
try: ask for htslib 1.21 instead of htslib 1.17`},
		{"no version will do", bio, []string{"samtools", "htslib=1.17"}, `
samtools 1.20 needs htslib >=1.20,<1.22, but you asked for htslib 1.17.*; no other samtools fits either
- you asked for samtools
  - samtools 1.20 needs htslib >=1.20,<1.22
  - samtools 1.19 needs htslib >=1.19,<1.20
- you asked for htslib 1.17.*
try: ask for htslib 1.21 instead of htslib 1.17.*`},
		{"one bound too many", bio, []string{"samtools >=1.19,<1.19.5", "htslib >=1.20"}, `
samtools 1.19 needs htslib >=1.19,<1.20, but you asked for htslib >=1.20
- you asked for samtools >=1.19,<1.19.5
  - samtools 1.19 needs htslib >=1.19,<1.20
- you asked for htslib >=1.20
try: ask for samtools >=1.19 instead of samtools >=1.19,<1.19.5
try: ask for htslib 1.19 instead of htslib >=1.20`},
		{"misspelt", bio, []string{"samtols 1.20"}, `
No package is named samtols in bioconda: did you mean samtools?
- you asked for samtols 1.20
  - no package is named samtols in bioconda: did you mean samtools?
try: ask for samtools 1.20 instead of samtols 1.20`},
		{"in another channel", plain, []string{"bwa"}, `
No package is named bwa in conda-forge; it is in bioconda, which is not among your channels
- you asked for bwa
  - no package is named bwa in conda-forge; it is in bioconda, which is not among your channels
try: add the channel bioconda`},
		{"a later channel has it", append(slices.Clone(plain), bio...), []string{"samtools 1.20"}, `
No samtools fits samtools 1.20: the newest is 0.1
- you asked for samtools 1.20
  - no samtools fits samtools 1.20: the newest is 0.1
try: take samtools from bioconda: bioconda::samtools 1.20
try: ask for samtools 0.1 instead of samtools 1.20`},
		{"no such version", bio, []string{"bwa >=1"}, `
No bwa fits bwa >=1: the newest is 0.7.18
- you asked for bwa >=1
  - no bwa fits bwa >=1: the newest is 0.7.18
try: ask for bwa 0.7.18 instead of bwa >=1`},
		{"no such build", bio, []string{"bwa 0.7.18 h_*"}, `
No bwa fits bwa 0.7.18 h_*: its version is there, but not that build or channel
- you asked for bwa 0.7.18 h_*
  - no bwa fits bwa 0.7.18 h_*: its version is there, but not that build or channel
try: ask for bwa 0.7.18 instead of bwa 0.7.18 h_*`},
		{"no graphics card", bio, []string{"basecaller"}, `
basecaller 7.0 needs gpu-runtime, and gpu-runtime 12 needs __cuda >=12, but the machine has no __cuda
- you asked for basecaller
  - basecaller 7.0 needs gpu-runtime
    - gpu-runtime 12 needs __cuda >=12
      - the machine has no __cuda`},
		{"the machine is too old", bio, []string{"new"}, `
new 1.0 needs __glibc >=2.40, but the machine has __glibc=2.36
- you asked for new
  - new 1.0 needs __glibc >=2.40
    - the machine has __glibc=2.36`},
		{"a dependency is gone", bio, []string{"plugin", "bwa"}, `
plugin 1.0 needs gone >=2, but no package is named gone in bioconda
- you asked for plugin
  - plugin 1.0 needs gone >=2
    - no package is named gone in bioconda
try: leave out plugin`},
		{"a dependency under a condition", bio, []string{"old"}, `
old 1.0 needs numpy[when="python <3"], but conditional dependencies and extras are not supported
- you asked for old
  - old 1.0 needs numpy[when="python <3"]
    - conditional dependencies and extras are not supported`},
		{"two conflicts", bio, []string{"bwa", "samtools 1.20", "htslib 1.17", "zlib 1.2", "plugin"}, `
No zlib fits zlib 1.2: the newest is 1.3
- you asked for zlib 1.2
  - no zlib fits zlib 1.2: the newest is 1.3
try: ask for zlib 1.3 instead of zlib 1.2, leave out plugin, and ask for htslib 1.21 instead of htslib 1.17`},
		{"two names", append(slices.Clone(plain), channel("x")), []string{"samtols", "bwa"}, `
No package is named bwa in conda-forge and x; it is in bioconda, which is not among your channels
- you asked for bwa
  - no package is named bwa in conda-forge and x; it is in bioconda, which is not among your channels
try: add the channel bioconda, and ask for samtools instead of samtols`},
		{"another platform", bio, []string{"star"}, `
No package is named star in bioconda; star 2.7.11b is only available for linux/amd64
- you asked for star
  - no package is named star in bioconda; star 2.7.11b is only available for linux/amd64`},
		{"asked twice", bio, []string{"htslib 1.20", "htslib 1.21"}, `
You asked for htslib 1.20 and for htslib 1.21, and no htslib is both
- you asked for htslib 1.20
- you asked for htslib 1.21
try: leave out htslib 1.20`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := solver.Problem{Specs: specs(t, c.specs...), Channels: c.channels, Virtual: machine(), Names: spelling{bio}}
			conflict := conflictOf(t, p)
			got := "\n" + conflict.Text()
			suggestions, err := solver.Suggest(t.Context(), p, conflict)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range suggestions {
				got += "\ntry: " + s.Change
			}
			if got != c.want {
				t.Errorf("explained as\n%s\n\nwant\n%s", got, c.want)
			}
		})
	}
}

func conflictOf(t *testing.T, p solver.Problem) *solver.Conflict {
	t.Helper()
	_, err := solver.Solve(t.Context(), p)
	var conflict *solver.Conflict
	if !errors.As(err, &conflict) {
		t.Fatalf("solved with %v, want a conflict", err)
	}
	return conflict
}

// TestSuggestionsSolve checks that the suggested requests are solvable.
func TestSuggestionsSolve(t *testing.T) {
	t.Parallel()
	forge := []solver.Channel{forge(t, "linux-64")}
	for _, request := range [][]string{
		{"numpy 1.26.*", "python 3.13.*"},
		{"bokeh 3.6.*", "python 3.9.*"},
	} {
		p := solver.Problem{Specs: specs(t, request...), Channels: forge, Virtual: machine()}
		suggestions, err := solver.Suggest(t.Context(), p, conflictOf(t, p))
		if err != nil || len(suggestions) == 0 {
			t.Errorf("%q: %d suggestions, %v", request, len(suggestions), err)
		}
		for _, s := range suggestions {
			p.Specs = specs(t, s.Packages...)
			if _, err := solver.Solve(t.Context(), p); err != nil {
				t.Errorf("%q: suggested %q: %v", request, s.Change, err)
			}
		}
	}
}

func TestConflictAsJSON(t *testing.T) {
	t.Parallel()
	p := solver.Problem{Specs: specs(t, "samtools 1.20", "htslib 1.17"), Channels: []solver.Channel{biology()}}
	got, err := json.Marshal(conflictOf(t, p))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"specs":["samtools 1.20","htslib 1.17"],"summary":"samtools 1.20 needs htslib \u003e=1.20,\u003c1.22, but you asked for htslib 1.17","reasons":[` +
		`{"kind":"asked","spec":"samtools 1.20","text":"you asked for samtools 1.20","because":[{"kind":"needs","package":"samtools 1.20","spec":"htslib \u003e=1.20,\u003c1.22","text":"samtools 1.20 needs htslib \u003e=1.20,\u003c1.22"}]},` +
		`{"kind":"asked","spec":"htslib 1.17","text":"you asked for htslib 1.17"}]}`
	if string(got) != want {
		t.Errorf("the conflict is\n%s\nwant\n%s", got, want)
	}
}

func TestExcludeNewer(t *testing.T) {
	t.Parallel()
	day := func(d int) int64 { return time.Date(2024, 1, d, 0, 0, 0, 0, time.UTC).UnixMilli() }
	older, newer := made("a 1.0"), made("a 2.0")
	older.Timestamp, newer.Timestamp = day(10), day(20)
	p := solver.Problem{Specs: specs(t, "a"), Channels: []solver.Channel{channel("c", older, newer)}, ExcludeNewer: time.UnixMilli(day(15))}
	got, err := solver.Solve(t.Context(), p)
	if err != nil || files(got)[0] != older.FileName {
		t.Errorf("solved as %v, %v", got, err)
	}
	p.ExcludeNewer = time.UnixMilli(day(5))
	if got := conflictOf(t, p).Summary; got != "Every a is newer than 2024-01-05 00:00 UTC" {
		t.Errorf("explained as %q", got)
	}
}
