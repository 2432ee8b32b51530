package citation_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway.dev/services/container/citation"
	"slipway.dev/services/internal/fault"
)

func image() citation.Image {
	return citation.Image{
		ID: "3f9a0c12ab34cd56", URL: "https://slipway.example.org/c/3f9a0c12ab34cd56", Host: "slipway.example.org", Repository: "c/3f9a0c12ab34cd56/samtools_bwa", Tag: "1.20_0.7.18",
		Digest: "sha256:1d1d", Platforms: "linux/amd64,linux/arm64", Kept: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		Lock: citation.File{URL: "https://slipway.example.org/lock", SHA256: "2e2e", Size: 12},
		Packages: []citation.Package{
			{Name: "samtools", Version: "1.20", License: "MIT", URL: "https://channel/linux-64/samtools.conda", SHA256: "3f", Requested: true},
			{Name: "samtools", Version: "1.20", License: "MIT", URL: "https://channel/linux-aarch64/samtools.conda", SHA256: "4a", Requested: true},
			{Name: "bwa", Version: "0.7.18", License: "GPL \"3\"", URL: "https://channel/linux-64/bwa.conda", SHA256: "5b", Requested: true},
			{Name: "zlib", Version: "1.3", URL: "https://channel/linux-64/zlib.conda"},
		},
	}
}

// TestBibTeX checks an entry, and that special characters of TeX are escaped.
func TestBibTeX(t *testing.T) {
	t.Parallel()
	got, err := image().Text(citation.BibTeX)
	const want = `@misc{slipway-3f9a0c12ab34cd56,
  title        = {Container image of samtools 1.20 and bwa 0.7.18},
  author       = {{The developers of samtools 1.20 and bwa 0.7.18}},
  year         = {2026},
  month        = mar,
  howpublished = {\url{https://slipway.example.org/c/3f9a0c12ab34cd56}},
  note         = {Container image \texttt{slipway.example.org/c/3f9a0c12ab34cd56/samtools\_bwa:1.20\_0.7.18} (linux/amd64,linux/arm64), digest sha256:1d1d}
}
`
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
}

// TestCFF checks the lines of a CITATION.cff. The end-to-end tests validate it with a genuine program.
func TestCFF(t *testing.T) {
	t.Parallel()
	got, err := image().Text(citation.CFF)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"cff-version: 1.2.0", "date-released: 2026-03-01", `    title: "bwa"`, `    notes: "Licence: GPL \"3\""`, `    value: "sha256:1d1d"`} {
		if !strings.Contains("\n"+got, "\n"+line+"\n") && !strings.Contains(got, line) {
			t.Errorf("%q lacks %s", got, line)
		}
	}
	if strings.Contains(got, "zlib") {
		t.Error("it cites a dependency")
	}
}

// TestROCrate checks that all entities of a crate are found, and that packages have their digests.
func TestROCrate(t *testing.T) {
	t.Parallel()
	for _, want := range []string{"DockerImage", "SIFImage", ""} {
		of := image()
		of.IsSIF, of.IsEnvironment = want == "SIFImage", want == ""
		text, err := of.Text(citation.ROCrate)
		if err != nil {
			t.Fatal(err)
		}
		var crate struct {
			Graph []map[string]any `json:"@graph"`
		}
		if err := json.Unmarshal([]byte(text), &crate); err != nil {
			t.Fatal(err)
		}
		ids := map[any]map[string]any{}
		for _, e := range crate.Graph {
			ids[e["@id"]] = e
		}
		if len(ids) != 9 || len(ids) != len(crate.Graph) {
			t.Errorf("there are %d entities: %s", len(ids), text)
		}
		if e := ids["https://channel/linux-aarch64/samtools.conda"]; e["sha256"] != "4a" || e["softwareVersion"] != "1.20" {
			t.Errorf("a package is %v", e)
		}
		if e := ids["#image"]; e["sha256"] != "1d1d" || e["tag"] != "1.20_0.7.18" || len(e["softwareRequirements"].([]any)) != 4 {
			t.Errorf("the image is %v", e)
		}
		kind, ok := ids["#image"]["additionalType"].(map[string]any)
		if id, _ := kind["@id"].(string); ok != (want != "") || !strings.HasSuffix(id, want) {
			t.Errorf("the type of the image is %v, want %q", kind, want)
		}
	}
}

// TestCitesAll checks that all packages are cited if none was requested, of which a title names five.
func TestCitesAll(t *testing.T) {
	t.Parallel()
	of := image()
	of.Digest, of.Packages = "", nil
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		of.Packages = append(of.Packages, citation.Package{Name: name, Version: "1"})
	}
	got, err := of.Text(citation.BibTeX)
	if err != nil || !strings.Contains(got, "a 1, b 1, c 1, d 1, e 1 and 2 other packages") || strings.Contains(got, "digest") {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := of.Text("ris"); !errors.Is(err, fault.Invalid) {
		t.Errorf("an unknown format: %v", err)
	}
}
