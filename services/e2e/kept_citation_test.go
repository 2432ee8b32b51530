package e2e

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/services/internal/testkit"
)

// TestCitations validates the citation of a kept image with the programs that people use.
func TestCitations(t *testing.T) {
	t.Parallel()
	cffconvert := pythonProgram(t, "cffconvert", "2.0.0", "rocrate==0.13.0", "bibtexparser==1.4.3")
	up, channel := testkit.NewRegistry(t, testkit.Open), newArtifacts(t)
	p := oneProcess(t, common(t, []string{up.Host}, keeping(channel.URL, "all")))
	answer := p.order(kept(up.Push(t, "base/index:1", testkit.Index(t, true, "amd64")), "libcurl", "lz4-c"))
	if s := p.finished(t, answer); s["succeeded"] != true {
		t.Fatalf("the build ended as %v:\n%s", s, p.logOf(answer))
	}
	p.knownDigest(t, text(answer, "keptId"))
	digest, dir := p.manifestDigest(t, answer), t.TempDir()
	for format, file := range map[string]string{"bibtex": "x.bib", "cff": "CITATION.cff", "ro-crate": "ro-crate-metadata.json"} {
		r := p.call(http.MethodGet, "/v1alpha1/catalog/"+text(answer, "keptId")+"/citation?format="+format, nil)
		if err := os.WriteFile(filepath.Join(dir, file), r.body, 0o600); err != nil || r.status != http.StatusOK {
			t.Fatalf("%s: %d %s, %v", format, r.status, r.body, err)
		}
	}
	if out, err := exec.Command(cffconvert, "--validate", "-i", filepath.Join(dir, "CITATION.cff")).CombinedOutput(); err != nil {
		t.Errorf("cffconvert: %v %s", err, out)
	}
	const script = `
import sys, bibtexparser
from rocrate.rocrate import ROCrate
entry, = bibtexparser.load(open(sys.argv[1] + "/x.bib")).entries
print(entry["title"])
crate = ROCrate(sys.argv[1])
image = crate.get("#image")
print(crate.name, image["sha256"], len(image["softwareRequirements"]))
`
	out, err := exec.Command(filepath.Join(filepath.Dir(cffconvert), "python"), "-c", script, dir).CombinedOutput()
	const title = "Container image of libcurl 8.4.0 and lz4-c 1.9.4\n"
	if want := title + strings.TrimSpace(title) + " " + strings.TrimPrefix(digest, "sha256:") + " 4\n"; err != nil || string(out) != want {
		t.Errorf("the programs printed %q instead of %q, %v", out, want, err)
	}
}
