package vex_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/vex"
)

const imageDigest = "sha256:6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b"

// openVEX returns a document with statements.
func openVEX(statements ...string) []byte {
	return []byte(`{"@context":"https://openvex.dev/ns/v0.2.0","@id":"x","author":"a","timestamp":"2026-11-01T00:00:00Z","version":1,"statements":[` + strings.Join(statements, ",") + `]}`)
}

// statement returns a statement with products, as JSON.
func statement(vulnerability, status, products string) string {
	return fmt.Sprintf(`{"vulnerability":{"name":%q},"products":[%s],"status":%q,"justification":"vulnerable_code_not_present"}`, vulnerability, products, status)
}

// TestVEX checks which findings statements apply to.
func TestVEX(t *testing.T) {
	t.Parallel()
	image := `{"@id":"pkg:oci/x@` + strings.ReplaceAll(imageDigest, ":", "%3A") + `?arch=amd64"`
	for name, c := range map[string]struct {
		statements []string
		want       vex.Status
	}{
		"package":                {[]string{statement("CVE-2024-1", "not_affected", `{"@id":"pkg:pypi/ruamel-yaml@0.18.1"}`)}, vex.NotAffected},
		"alias":                  {[]string{statement("GHSA-aaaa-bbbb-cccc", "fixed", `{"@id":"pkg:pypi/ruamel-yaml"}`)}, vex.Fixed},
		"other vulnerability":    {[]string{statement("CVE-2024-2", "fixed", `{"@id":"pkg:pypi/ruamel-yaml"}`)}, ""},
		"other version":          {[]string{statement("CVE-2024-1", "fixed", `{"@id":"pkg:pypi/ruamel-yaml@0.18"}`)}, ""},
		"qualifier":              {[]string{statement("CVE-2024-1", "fixed", `{"@id":"pkg:pypi/ruamel-yaml?file_name=x"}`)}, ""},
		"identifier":             {[]string{statement("CVE-2024-1", "fixed", `{"@id":"https://example.org/x","identifiers":{"purl":"pkg:pypi/ruamel-yaml"}}`)}, vex.Fixed},
		"image":                  {[]string{statement("CVE-2024-1", "not_affected", image+`}`)}, vex.NotAffected},
		"image by hash":          {[]string{statement("CVE-2024-1", "not_affected", `{"@id":"x","hashes":{"sha-256":"`+strings.TrimPrefix(imageDigest, "sha256:")+`"}}`)}, vex.NotAffected},
		"other image":            {[]string{statement("CVE-2024-1", "not_affected", `{"@id":"pkg:oci/x@sha256%3A`+strings.Repeat("0", 64)+`"}`)}, ""},
		"image without digest":   {[]string{statement("CVE-2024-1", "not_affected", `{"@id":"pkg:oci/x"}`)}, ""},
		"package of image":       {[]string{statement("CVE-2024-1", "not_affected", image+`,"subcomponents":[{"@id":"pkg:pypi/ruamel-yaml"}]}`)}, vex.NotAffected},
		"other package of image": {[]string{statement("CVE-2024-1", "not_affected", image+`,"subcomponents":[{"@id":"pkg:pypi/numpy"}]}`)}, ""},
		"unknown subcomponent":   {[]string{statement("CVE-2024-1", "not_affected", image+`,"subcomponents":[{"@id":"the library"}]}`)}, ""},
		"package with a hash":    {[]string{statement("CVE-2024-1", "fixed", `{"@id":"pkg:pypi/ruamel-yaml@0.18.1","hashes":{"sha-256":"`+strings.Repeat("0", 64)+`"}}`)}, vex.Fixed},
		"later":                  {[]string{strings.Replace(statement("CVE-2024-1", "affected", `{"@id":"pkg:pypi/ruamel-yaml"}`), "{", `{"timestamp":"2026-11-02T00:00:00Z",`, 1), statement("CVE-2024-1", "fixed", `{"@id":"pkg:pypi/ruamel-yaml"}`)}, ""},
		"old form":               {[]string{`{"vulnerability":"CVE-2024-1","products":["pkg:oci/x@` + imageDigest + `"],"subcomponents":["pkg:pypi/ruamel-yaml"],"status":"under_investigation"}`}, ""},
	} {
		doc, err := parse(string(openVEX(c.statements...)))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		in := scanned("CVE-2024-1", "pkg:pypi/ruamel-yaml@0.18.1")
		in.Images = []string{imageDigest}
		got := apply(t, vex.Sets{doc}, in)
		v := got.GetVulnerabilities()[0]
		if v.GetStatus() != string(c.want) || in.GetVulnerabilities()[0].Status != nil || in.GetCounts()["HIGH"] != 2 {
			t.Errorf("%s: %+v", name, v)
		}
		if c.want == "" {
			if got.GetCounts()["HIGH"] != 2 || v.Justification != nil || v.Document != nil {
				t.Errorf("%s: %+v", name, got)
			}
			continue
		}
		if v.GetJustification() != "vulnerable_code_not_present" || v.GetDocument() != "user/x" || got.GetCounts()["HIGH"] == 2 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// parse parses a document with the name user/x.
func parse(raw string) (*vex.Set, error) {
	return vex.Parse(vex.Document{Name: "user/x", Content: []byte(raw)})
}

// named parses statements as a document.
func named(t *testing.T, name string, statements ...string) *vex.Set {
	t.Helper()
	set, err := vex.Parse(vex.Document{Name: name, Content: openVEX(statements...)})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// scanned returns the result of a scan with a vulnerability of a package, and one of a package without a valid URL.
func scanned(id, purl string) *containerv1.ScanResult {
	return &containerv1.ScanResult{Counts: map[string]int32{"HIGH": 2}, Vulnerabilities: []*containerv1.Vulnerability{
		{Id: &id, Aliases: []string{"GHSA-aaaa-bbbb-cccc"}, Purl: &purl, Severity: new("HIGH")}, {Id: &id, Purl: new("not one"), Severity: new("HIGH")},
	}}
}

// at returns a statement with a time of its own.
func at(time, statement string) string {
	return strings.Replace(statement, "{", `{"timestamp":"`+time+`",`, 1)
}

// TestDocumentOfGoVEX parses a document that the Go library of OpenVEX (github.com/openvex/go-vex 0.2.9), which vexctl
// uses, has written.
func TestDocumentOfGoVEX(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("testdata/go-vex.json")
	if err != nil {
		t.Fatal(err)
	}
	set, err := parse(string(raw))
	if err != nil {
		t.Fatal(err)
	}
	got := apply(t, vex.Sets{set}, scanned("CVE-2023-45853", "pkg:deb/debian/zlib1g@1.2.13?arch=amd64"))
	if v := got.GetVulnerabilities()[0]; v.GetStatus() != "not_affected" || v.GetJustification() != "vulnerable_code_not_present" {
		t.Errorf("the vulnerability is %v", v)
	}
	if set.Newest().IsZero() {
		t.Error("the statement has no time")
	}
}

// TestSeveralDocuments checks which of the statements of several documents applies.
func TestSeveralDocuments(t *testing.T) {
	t.Parallel()
	const purl = `"pkg:pypi/a"`
	server := named(t, "server/v", statement("CVE-1", "not_affected", purl))
	mine := named(t, "user/v", statement("CVE-1", "affected", purl))
	newer := named(t, "server/w", at("2026-11-05T00:00:00Z", statement("CVE-1", "fixed", purl)))
	for name, c := range map[string]struct {
		sets vex.Sets
		want string
	}{
		"none":               {nil, ""},
		"one":                {vex.Sets{server}, "server/v"},
		"the last":           {vex.Sets{server, mine}, ""},
		"the last again":     {vex.Sets{mine, server}, "server/v"},
		"the newest":         {vex.Sets{newer, mine}, "server/w"},
		"the newest of many": {vex.Sets{mine, newer, server}, "server/w"},
	} {
		got := apply(t, c.sets, scanned("CVE-1", "pkg:pypi/a@1"))
		if d := got.GetVulnerabilities()[0].GetDocument(); d != c.want || got.GetVulnerabilities()[1].Status != nil || (got.GetCounts()["HIGH"] == 1) != (c.want != "") {
			t.Errorf("%s: %q, want %q: %v", name, d, c.want, got.GetCounts())
		}
	}
}

// TestSeveralPlatforms checks that a vulnerability of the images of several platforms is only ruled out if it is for
// each of them.
func TestSeveralPlatforms(t *testing.T) {
	t.Parallel()
	other := "sha256:" + strings.Repeat("0", 64)
	about := func(digest string) string {
		return statement("CVE-1", "not_affected", `{"@id":"pkg:oci/x@`+strings.ReplaceAll(digest, ":", "%3A")+`"}`)
	}
	for name, c := range map[string]struct {
		sets   vex.Sets
		places uint64
		want   bool
	}{
		"the only image":   {vex.Sets{named(t, "a", about(imageDigest))}, 1, true},
		"the other image":  {vex.Sets{named(t, "a", about(imageDigest))}, 2, false},
		"one of two":       {vex.Sets{named(t, "a", about(imageDigest))}, 3, false},
		"both":             {vex.Sets{named(t, "a", about(imageDigest)), named(t, "b", about(other))}, 3, true},
		"images not known": {vex.Sets{named(t, "a", about(imageDigest)), named(t, "b", about(other))}, 0, false},
		"the package":      {vex.Sets{named(t, "a", statement("CVE-1", "fixed", `"pkg:pypi/a"`))}, 3, true},
	} {
		in := scanned("CVE-1", "pkg:pypi/a@1")
		in.Images, in.Places = []string{imageDigest, other}, []uint64{c.places, c.places}
		if got := apply(t, c.sets, in); (got.GetVulnerabilities()[0].Status != nil) != c.want {
			t.Errorf("%s: %v", name, got.GetVulnerabilities()[0])
		}
	}
}

// TestInvalidVEX checks that documents which are not valid are refused with the reason.
func TestInvalidVEX(t *testing.T) {
	t.Parallel()
	many := make([]string, limits.VEXStatements+1)
	for i := range many {
		many[i] = statement("CVE-2024-1", "fixed", `"x"`)
	}
	for raw, want := range map[string]string{
		"": "not valid JSON", `{"@context":"https://example.org"}`: "@context", `[]`: "not valid JSON", strings.Repeat("[", 1000): "not valid JSON",
		string(openVEX(statement("", "fixed", `"x"`))): "no vulnerability", string(openVEX(statement("CVE-1", "gone", `"x"`))): "status", string(openVEX(statement("CVE-1", "fixed", ""))): "no products",
		string(openVEX(`{"vulnerability":"CVE-1","products":["x"],"status":"not_affected"}`)):            "justification",
		string(openVEX(`{"vulnerability":"CVE-1","products":["x"],"status":"fixed","timestamp":"now"}`)): "timestamp",
		string(openVEX(many...)):          "10000 statements",
		strings.Repeat(" ", limits.VEX+1): "4 MiB",
		string(openVEX(statement("CVE-1", "fixed", strings.Repeat(`"pkg:a/b",`, limits.VEXProducts)+`"pkg:a/b"`))): "50000 products",
	} {
		if _, err := parse(raw); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v", raw, err)
		}
	}
	// The subcomponents of a statement belong to each product.
	empty := strings.Repeat(`"",`, 20_000) + `""`
	started := time.Now()
	if _, err := parse(string(openVEX(`{"vulnerability":"CVE-1","status":"fixed","products":[` + empty + `],"subcomponents":[` + empty + `]}`))); err != nil || time.Since(started) > time.Minute {
		t.Errorf("%v after %v", err, time.Since(started))
	}
	doc, err := parse(string(openVEX(`{"vulnerability":"CVE-1","products":["pkg:a/b"],"status":"fixed","status_notes":"a\u001b]0;b\u202e\nc"}`)))
	if err != nil {
		t.Fatal(err)
	}
	if got := apply(t, vex.Sets{doc}, scanned("CVE-1", "pkg:a/b@1")).GetVulnerabilities()[0].GetJustification(); got != "a ]0;b c" {
		t.Errorf("%q", got)
	}
	path := filepath.Join(t.TempDir(), "x.json")
	if err := os.WriteFile(path, openVEX(statement("CVE-1", "fixed", `"pkg:a/b"`)), 0o600); err != nil {
		t.Fatal(err)
	}
	if raw, err := vex.ReadFile(path, limits.VEX); err != nil || len(raw) == 0 {
		t.Error(err)
	}
	if err := os.Truncate(path, limits.VEX+1); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{path, path + ".missing", filepath.Dir(path)} {
		if _, err := vex.ReadFile(bad, limits.VEX); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
	if _, err := vex.ReadFiles(slices.Repeat([]string{path}, limits.VEXFiles+1), filepath.Base); err == nil || !strings.Contains(err.Error(), "the limit is 100") {
		t.Error(err)
	}
	if err := os.Truncate(path, limits.VEX); err != nil {
		t.Fatal(err)
	}
	most := slices.Repeat([]string{path}, limits.VEXServer/limits.VEX)
	if docs, err := vex.ReadFiles(most, filepath.Base); err != nil || len(docs) != len(most) || docs[0].Name != "x.json" {
		t.Error(len(docs), err)
	}
	if _, err := vex.ReadFiles(append(most, path), filepath.Base); err == nil || !strings.Contains(err.Error(), "32 MiB in all") {
		t.Error(err)
	}
	if _, err := vex.ParseAll([]vex.Document{{Name: "user/a", Content: []byte("{}")}}); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "user/a") {
		t.Error(err)
	}
}

// FuzzVEX checks that a document that is accepted can be applied.
func FuzzVEX(f *testing.F) {
	f.Add(openVEX(statement("CVE-2024-1", "fixed", `{"@id":"pkg:pypi/a","hashes":{"sha-256":"x"},"subcomponents":["pkg:oci/x@sha256:1"]}`)))
	f.Add([]byte(`{"@context":"https://openvex.dev/ns","statements":[{"vulnerability":"x","products":["y"],"status":"affected"}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if doc, err := parse(string(raw)); err == nil {
			_, _ = vex.Sets{doc}.Apply(t.Context(), scanned("CVE-2024-1", "pkg:pypi/a@1"))
		}
	})
}

func apply(t *testing.T, sets vex.Sets, res *containerv1.ScanResult) *containerv1.ScanResult {
	t.Helper()
	out, err := sets.Apply(t.Context(), res)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestManyStatements checks that statements about one vulnerability cannot occupy a processor, and that justifications
// do not make a result too large.
func TestManyStatements(t *testing.T) {
	t.Parallel()
	many := make([]string, limits.VEXStatements)
	for i := range many {
		many[i] = statement("CVE-1", "fixed", `"pkg:a/other"`)
	}
	res := &containerv1.ScanResult{Counts: map[string]int32{"HIGH": limits.ScanListed}}
	for range limits.ScanListed {
		res.Vulnerabilities = append(res.Vulnerabilities, &containerv1.Vulnerability{Id: new("CVE-1"), Purl: new("pkg:a/b@1"), Severity: new("HIGH")})
	}
	started := time.Now()
	if _, err := (vex.Sets{named(t, "a", many...)}).Apply(t.Context(), res); !errors.Is(err, fault.Invalid) || time.Since(started) > 30*time.Second {
		t.Errorf("%v after %v", err, time.Since(started))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (vex.Sets{named(t, "a", many...)}).Apply(ctx, res); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	long := strings.Replace(statement("CVE-1", "fixed", `"pkg:a/b"`), "vulnerable_code_not_present", strings.Repeat("x", limits.VEXText), 1)
	out := apply(t, vex.Sets{named(t, "a", long)}, res)
	if n := proto.Size(out) - proto.Size(res); n > limits.VEXTexts+1<<20 || len(out.GetCounts()) != 0 {
		t.Errorf("the statements have added %d bytes: %v", n, out.GetCounts())
	}
}
