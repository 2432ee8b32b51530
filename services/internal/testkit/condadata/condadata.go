// Package condadata reads the Conda test data: records of real channels, requests with the
// results of reference solvers, and comparisons of versions. See its testdata/README.md.
package condadata

import (
	"bytes"
	"embed"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"slipway.dev/services/conda/spec"
)

// T receives fatal errors. A testing.TB implements it.
type T interface {
	Helper()
	Fatalf(format string, args ...any)
}

//go:embed testdata/*.zst testdata/repodata
var files embed.FS

// Repodata returns the repodata.json of a channel's subdirectory, e.g. "conda-forge" and
// "linux-64".
func Repodata(t T, channel, subdir string) []byte {
	t.Helper()
	return open(t, "repodata/"+channel+"/"+subdir+".json.zst")
}

// RepodataZst returns the compressed repodata.json.zst.
func RepodataZst(t T, channel, subdir string) []byte {
	t.Helper()
	return read(t, "repodata/"+channel+"/"+subdir+".json.zst")
}

// A Solve is a request with its results. The results are file names in alphabetical order; nil
// means unsatisfiable.
type Solve struct {
	Specs   []string `json:"specs"`
	Rattler []string `json:"rattler"`
	Libsolv []string `json:"libsolv"`
}

// Solves returns the requests with their results.
func Solves(t T) []Solve {
	t.Helper()
	return solves(t, "solves.jsonl.zst")
}

// Drawn returns requests that were drawn at random, with the results of rattler.
func Drawn(t T) []Solve {
	t.Helper()
	return solves(t, "drawn.jsonl.zst")
}

func solves(t T, name string) []Solve {
	t.Helper()
	all := lines[Solve](t, name)
	for i := range all {
		slices.Sort(all[i].Rattler)
		slices.Sort(all[i].Libsolv)
	}
	return all
}

// lines reads a file with one JSON object per line.
func lines[Line any](t T, name string) (out []Line) {
	t.Helper()
	for line := range bytes.Lines(open(t, name)) {
		var one Line
		if err := json.Unmarshal(line, &one); err != nil {
			t.Fatalf("reading %s: %v", name, err)
		}
		out = append(out, one)
	}
	return out
}

// VersionComparisons returns the comparisons of versions: four fields each, the last one the
// result.
func VersionComparisons(t T) [][]string {
	t.Helper()
	var out [][]string
	for line := range strings.Lines(string(open(t, "versions.tsv.zst"))) {
		out = append(out, strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
	}
	return out
}

// A Case is a request solved with rattler 0.28 that Solves does not cover: other platforms,
// two channels, a date.
type Case struct {
	// Platform is a subdirectory. Channels is ordered by priority, highest first.
	Platform string   `json:"platform"`
	Channels []string `json:"channels"`
	Specs    []string `json:"specs"`
	// ExcludeNewer excludes records with a later timestamp; zero excludes none.
	ExcludeNewer time.Time `json:"excludeNewer"`
	// Rattler is the result of rattler, sorted by file name; nil means unsatisfiable.
	Rattler []string `json:"rattler"`
}

// Cases returns the further requests.
func Cases(t T) []Case {
	t.Helper()
	return lines[Case](t, "cases.jsonl.zst")
}

// Records returns the records of a channel's subdirectory by name. It uses encoding/json,
// which is slow but independent of the parser under test.
func Records(t T, channel, subdir string) map[string][]spec.Record {
	t.Helper()
	var doc struct {
		Packages map[string]record `json:"packages"`
		Conda    map[string]record `json:"packages.conda"`
	}
	if err := json.Unmarshal(Repodata(t, channel, subdir), &doc); err != nil {
		t.Fatalf("reading the records of %s/%s: %v", channel, subdir, err)
	}
	out := map[string][]spec.Record{}
	for _, section := range []map[string]record{doc.Packages, doc.Conda} {
		for file, r := range section {
			c := r.Record
			c.TrackFeatures = r.features()
			c.Channel, c.Subdir, c.FileName = channel, subdir, file
			c.URL = "https://conda.anaconda.org/" + channel + "/" + subdir + "/" + file
			out[c.Name] = append(out[c.Name], c)
		}
	}
	return out
}

// A record is a record of repodata.json, whose features are a list or one string.
type record struct {
	spec.Record
	Features json.RawMessage `json:"track_features"`
}

func (r *record) features() []string {
	var list []string
	if json.Unmarshal(r.Features, &list) == nil {
		return list
	}
	var text string
	if json.Unmarshal(r.Features, &text) != nil {
		return nil
	}
	return strings.FieldsFunc(text, func(c rune) bool { return c == ',' || c == ' ' })
}

func read(t T, name string) []byte {
	t.Helper()
	raw, err := files.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatalf("reading test data: %v", err)
	}
	return raw
}

func open(t T, name string) []byte {
	t.Helper()
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		t.Fatalf("opening test data: %v", err)
	}
	defer dec.Close()
	out, err := dec.DecodeAll(read(t, name), nil)
	if err != nil {
		t.Fatalf("opening %s: %v", name, err)
	}
	return out
}
