package sbom_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sbom"
)

const digest = "sha256:6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b"

func formats() []sbom.Format { return []sbom.Format{sbom.SPDX, sbom.CycloneDX} }

// schema returns the published schema of a format.
func schema(t testing.TB, f sbom.Format) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	for name, id := range map[string]string{
		"spdx-2.3": "http://spdx.org/rdf/terms/2.3", "bom-1.6": "http://cyclonedx.org/schema/bom-1.6.schema.json",
		"jsf-0.82": "http://cyclonedx.org/schema/jsf-0.82.schema.json", "spdx": "http://cyclonedx.org/schema/spdx.schema.json",
	} {
		raw, err := os.Open(filepath.Join("testdata", name+".schema.json"))
		if err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(raw)
		_ = raw.Close()
		if err == nil {
			err = c.AddResource(id, doc)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	id := "http://spdx.org/rdf/terms/2.3"
	if f == sbom.CycloneDX {
		id = "http://cyclonedx.org/schema/bom-1.6.schema.json"
	}
	s, err := c.Compile(id)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// write returns the document, which must be valid.
func write(t testing.TB, s *jsonschema.Schema, m sbom.Image, f sbom.Format) []byte {
	t.Helper()
	raw, err := m.Document(f)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err == nil {
		err = s.Validate(doc)
	}
	if err != nil {
		t.Fatalf("%s: %v\n%s", f, err, raw[:min(len(raw), 4000)])
	}
	return raw
}

// image returns an image with a package of each kind of licence, and a wheel.
func image() sbom.Image {
	m := sbom.Image{
		Repository: "quay.io/lab/tools", Digest: digest, Platform: "linux/amd64", Created: time.Date(2026, 3, 1, 12, 0, 0, 5000, time.FixedZone("CET", 3600)), Note: "Only Conda packages.",
		Components: sbom.Conda([]spec.Record{
			{Name: "zlib", Version: "1.3.1", Build: "hb9d3cd8_2", Channel: "conda-forge", Subdir: "linux-64", License: "Zlib", FileName: "zlib-1.3.1-hb9d3cd8_2.conda",
				URL: "https://conda.anaconda.org/conda-forge/linux-64/zlib-1.3.1-hb9d3cd8_2.conda", SHA256: strings.Repeat("ab", 32), MD5: strings.Repeat("cd", 16)},
			{Name: "samtools", Version: "1.20", Build: "h50ea8bc_0", Channel: "https://conda.anaconda.org/bioconda/", Subdir: "linux-64", License: "MIT OR gpl-2.0-only", FileName: "samtools-1.20-h50ea8bc_0.tar.bz2",
				Depends: []string{"zlib >=1.3", "__glibc >=2.17", "ncurses"}},
			{Name: "ncurses", Version: "6.5", Build: "h2d0b736_3", Channel: "conda-forge", Subdir: "linux-64", License: "X11 AND BSD-3-Clause"},
			{Name: "cudatoolkit", Version: "1!2+é", Channel: "https://conda.example.org/lab", Subdir: "noarch", License: "NVIDIA End User License Agreement\nsecond line"},
			{Name: "tool", Version: "1", Subdir: "noarch", License: "MIT AND LicenseRef-Own"},
			{Name: "bad", Version: "1", Subdir: "noarch", License: "DocumentRef-x:LicenseRef-y", URL: "ftp://x/y", SHA256: "12"},
			{Name: "none", Version: "1", Subdir: "noarch"},
			{Name: "ruamel.yaml", Version: "0.18", Build: "pypi_0", Channel: spec.PyPI, Subdir: spec.PyPI, URL: "https://files.pythonhosted.org/packages/aa/ruamel.yaml-0.18-py3-none-any.whl"},
		}, "/opt/conda"),
	}
	m.Components[0].Layer = digest
	return m
}

// TestDocumentsAreValid validates documents against the published schemas.
func TestDocumentsAreValid(t *testing.T) {
	t.Parallel()
	for _, f := range formats() {
		s := schema(t, f)
		write(t, s, image(), f)
		write(t, s, sbom.Image{}, f)
		// Equal contents in another order are the same document.
		again := image()
		slices.Reverse(again.Components)
		again.Components = append(again.Components, again.Components[2])
		if diff := cmp.Diff(string(write(t, s, image(), f)), string(write(t, s, again, f))); diff != "" {
			t.Errorf("%s depends on the order: %s", f, diff)
		}
	}
}

type spdxDocument struct {
	Namespace string `json:"documentNamespace"`
	Comment   string `json:"comment"`
	Created   struct {
		Created string `json:"created"`
	} `json:"creationInfo"`
	Packages []struct {
		ID       string `json:"SPDXID"`
		Name     string `json:"name"`
		Declared string `json:"licenseDeclared"`
		Download string `json:"downloadLocation"`
		Source   string `json:"sourceInfo"`
		Refs     []struct {
			Locator string `json:"referenceLocator"`
		} `json:"externalRefs"`
		Checksums []struct{ Algorithm, ChecksumValue string } `json:"checksums"`
	} `json:"packages"`
	Licenses []struct {
		ID   string `json:"licenseId"`
		Text string `json:"extractedText"`
	} `json:"hasExtractedLicensingInfos"`
	Relationships []struct {
		A    string `json:"spdxElementId"`
		B    string `json:"relatedSpdxElement"`
		Kind string `json:"relationshipType"`
	} `json:"relationships"`
}

func readSPDX(t *testing.T, m sbom.Image) spdxDocument {
	t.Helper()
	raw, err := m.Document(sbom.SPDX)
	if err != nil {
		t.Fatal(err)
	}
	var d spdxDocument
	if err := json.Unmarshal(raw, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestComponents tests package URLs, licences, sources and dependencies.
func TestComponents(t *testing.T) {
	t.Parallel()
	d := readSPDX(t, image())
	got := map[string][]string{}
	names := map[string]string{}
	for _, p := range d.Packages {
		declared := p.Declared
		for _, l := range d.Licenses {
			if l.ID == declared {
				declared = "text:" + l.Text
			}
		}
		got[p.Name] = []string{p.Refs[0].Locator, declared, p.Download}
		names[p.ID] = p.Name
	}
	want := map[string][]string{
		"quay.io/lab/tools": {"pkg:oci/tools@sha256:6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b?arch=amd64&repository_url=quay.io%2Flab%2Ftools", "NOASSERTION", "NOASSERTION"},
		"zlib":              {"pkg:conda/zlib@1.3.1?build=hb9d3cd8_2&channel=conda-forge&subdir=linux-64&type=conda", "Zlib", "https://conda.anaconda.org/conda-forge/linux-64/zlib-1.3.1-hb9d3cd8_2.conda"},
		"samtools":          {"pkg:conda/samtools@1.20?build=h50ea8bc_0&channel=bioconda&subdir=linux-64&type=tar.bz2", "MIT OR GPL-2.0-only", "NOASSERTION"},
		"ncurses":           {"pkg:conda/ncurses@6.5?build=h2d0b736_3&channel=conda-forge&subdir=linux-64", "X11 AND BSD-3-Clause", "NOASSERTION"},
		"cudatoolkit":       {"pkg:conda/cudatoolkit@1%212%2B%C3%A9?channel=https:%2F%2Fconda.example.org%2Flab&subdir=noarch", "text:NVIDIA End User License Agreement\nsecond line", "NOASSERTION"},
		"tool":              {"pkg:conda/tool@1?subdir=noarch", "MIT AND LicenseRef-Own", "NOASSERTION"},
		"bad":               {"pkg:conda/bad@1?subdir=noarch", "text:DocumentRef-x:LicenseRef-y", "NOASSERTION"},
		"none":              {"pkg:conda/none@1?subdir=noarch", "NOASSERTION", "NOASSERTION"},
		"ruamel.yaml":       {"pkg:pypi/ruamel.yaml@0.18?file_name=ruamel.yaml-0.18-py3-none-any.whl", "NOASSERTION", "https://files.pythonhosted.org/packages/aa/ruamel.yaml-0.18-py3-none-any.whl"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	var needs []string
	for _, r := range d.Relationships {
		if r.Kind == "DEPENDS_ON" {
			needs = append(needs, names[r.A]+" "+names[r.B])
		}
	}
	slices.Sort(needs)
	if diff := cmp.Diff([]string{"samtools ncurses", "samtools zlib"}, needs); diff != "" {
		t.Error(diff)
	}
	if d.Created.Created != "2026-03-01T11:00:00Z" || d.Comment != "Only Conda packages." {
		t.Errorf("created %q, comment %q", d.Created.Created, d.Comment)
	}
}

// TestLoginsAreLeftOut checks channels and addresses with logins.
func TestLoginsAreLeftOut(t *testing.T) {
	t.Parallel()
	m := sbom.Image{Components: sbom.Conda([]spec.Record{
		{Name: "a", Version: "1", Channel: "https://user:secret@conda.example.org/t/TOK/lab", URL: "https://user:secret@conda.example.org/t/TOK/lab/noarch/a-1-0.conda?sig=SECRET"},
		{Name: "b", Version: "1", Subdir: spec.PyPI, URL: "https://h.example.org/b-1-py3-none-any.whl?token=SECRET"},
		{Name: "c", Version: "1", URL: "oci://ghcr.io/lab/chan/noarch/c-1-0.conda"},
	}, "/opt/conda")}
	for _, f := range formats() {
		raw := string(write(t, schema(t, f), m, f))
		for _, secret := range []string{"secret", "TOK", "SECRET", "user"} {
			if strings.Contains(raw, secret) {
				t.Errorf("%s has %s: %s", f, secret, raw)
			}
		}
		for _, part := range []string{"https://conda.example.org/lab/noarch/a-1-0.conda", "file_name=b-1-py3-none-any.whl", "oci://ghcr.io/lab/chan/noarch/c-1-0.conda"} {
			if !strings.Contains(raw, part) {
				t.Errorf("%s lacks %s: %s", f, part, raw)
			}
		}
	}
}

// TestHostileDocuments checks that documents are bounded before they are written, and equal for any order.
func TestHostileDocuments(t *testing.T) {
	t.Parallel()
	var many []spec.Record
	for i := range 1000 {
		r := spec.Record{Name: fmt.Sprint("p", i), Version: strings.Repeat("1", 60_000/(1+i*1000))}
		for j := range 400 {
			r.Depends = append(r.Depends, fmt.Sprint("p", j))
		}
		many = append(many, r)
	}
	if raw, err := (sbom.Image{Components: sbom.Conda(many, "/opt/conda")}).Document(sbom.SPDX); !errors.Is(err, fault.Invalid) {
		t.Errorf("%d bytes, %v", len(raw), err)
	}
	text := "Foo bar"
	sum := sha256.Sum256([]byte(text))
	list := sbom.Conda([]spec.Record{
		{Name: "a", Version: "1", License: text}, {Name: "b", Version: "1", License: "LicenseRef-" + hex.EncodeToString(sum[:8])}, {Name: "c", Version: "1", License: "NOASSERTION"},
		{Name: "d", Version: "1", Depends: []string{"a", "e"}}, {Name: "a", Version: "2", Depends: []string{"c"}}, {Name: "a", Version: "1", License: text, Depends: []string{"c"}},
	}, "/x")
	for _, at := range []string{"9999-12-31T23:59:59-23:00", "0000-01-01T00:00:00+01:00", "2026-01-02T03:04:05Z"} {
		created, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range formats() {
			s, first := schema(t, f), ""
			for range 20 {
				rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
				raw := string(write(t, s, sbom.Image{Created: created, Components: list}, f))
				if first != "" && raw != first {
					t.Fatalf("%s: %s\n%s", f, first, raw)
				}
				first = raw
			}
		}
	}
}

// TestNamespaceFollowsContents tests that different contents have different namespaces.
func TestNamespaceFollowsContents(t *testing.T) {
	t.Parallel()
	other := image()
	other.Components = other.Components[1:]
	one, two := readSPDX(t, image()).Namespace, readSPDX(t, other).Namespace
	if prefix := "https://slipway.dev/sbom/" + strings.ReplaceAll(digest, ":", "-") + "/"; one == two || !strings.HasPrefix(one, prefix) || !strings.HasPrefix(two, prefix) {
		t.Errorf("the namespaces are %s and %s", one, two)
	}
}

// FuzzDocument validates documents of any contents.
func FuzzDocument(f *testing.F) {
	f.Add("zlib", "1.3.1", "MIT", "https://example.org/x y", "conda-forge", "/opt/conda")
	f.Add("\x00\xff/@?#", "%", "((((", "http://[::1", "https://user:x@h/c?t=1", "\n")
	f.Add("", "", "LicenseRef-\xc3", "//x", "", "")
	schemas := map[sbom.Format]*jsonschema.Schema{sbom.SPDX: schema(f, sbom.SPDX), sbom.CycloneDX: schema(f, sbom.CycloneDX)}
	f.Fuzz(func(t *testing.T, name, version, license, url, channel, path string) {
		records := []spec.Record{{Name: name, Version: version, License: license, URL: url, Channel: channel, Depends: []string{license, "b"}}, {Name: "b", Subdir: spec.PyPI, URL: url, Depends: []string{name}}}
		m := sbom.Image{Repository: name, Digest: version, Platform: channel, Note: license, Components: sbom.Conda(records, path)}
		for _, format := range formats() {
			write(t, schemas[format], m, format)
		}
	})
}

// BenchmarkDocument writes the document of an environment of 300 packages.
func BenchmarkDocument(b *testing.B) {
	var records []spec.Record
	for i := range 300 {
		n := strings.Repeat("p", 1+i%20) + string(rune('a'+i%26))
		records = append(records, spec.Record{
			Name: n + string(rune('a'+i/26)), Version: "1.20.3", Build: "h50ea8bc_0", Channel: "conda-forge", Subdir: "linux-64", License: []string{"MIT", "GPL-3.0-or-later", "BSD-3-Clause AND MIT", "Custom"}[i%4],
			URL: "https://conda.anaconda.org/conda-forge/linux-64/" + n + ".conda", SHA256: strings.Repeat("ab", 32), MD5: strings.Repeat("cd", 16), Depends: []string{"pa >=1", "libgcc", "ppb"},
		})
	}
	for _, f := range formats() {
		b.Run(string(f), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				m := sbom.Image{Repository: "quay.io/lab/tools", Digest: digest, Platform: "linux/amd64", Components: sbom.Conda(records, "/opt/conda")}
				if _, err := m.Document(f); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
