package vulns_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway.dev/services/internal/sbom"
)

// TestGenuineScanner compares the findings with those of osv-scanner, which reads the same archives and our bill of
// materials. SLIPWAY_TEST_CLIENTS is a folder that services/tools/clients.sh has filled.
func TestGenuineScanner(t *testing.T) {
	t.Parallel()
	scanner := filepath.Join(os.Getenv("SLIPWAY_TEST_CLIENTS"), "bin", "osv-scanner")
	if _, err := os.Stat(scanner); err != nil {
		t.Skip("SKIPPED: SLIPWAY_TEST_CLIENTS names no folder with bin/osv-scanner; services/tools/clients.sh builds it")
	}
	records := world()
	delete(records, "Bitnami")
	// osv-scanner does not read the release of a distribution from a bill of materials, so that there is only one.
	records["Debian"] = []string{
		osv("DEBIAN-CVE-2023-1", `"upstream":["CVE-2023-1"],`+critical3, pkg("Debian:12", "openssl", "0", "3.0.11-1~deb12u2")),
		osv("DSA-5532-1", `"upstream":["CVE-2023-1","CVE-2023-9"]`, pkg("Debian:12", "openssl", "0", "3.0.11-1~deb12u2")),
		osv("DEBIAN-CVE-2023-2", `"upstream":["CVE-2023-2"]`, pkg("Debian:12", "openssl", "0", "")),
		osv("DEBIAN-CVE-2020-4", `"withdrawn":"2026-01-01T00:00:00Z"`, pkg("Debian:12", "openssl", "0", "")),
		osv("DEBIAN-CVE-2022-5", `"upstream":["CVE-2022-5"]`, pkg("Debian:12", "zlib", "0", "1:1.2.13.dfsg-1")),
	}
	dir := t.TempDir()
	for e, list := range records {
		write(t, filepath.Join(dir, "osv-scanner"), e, list...)
	}
	db := imported(t, records)
	for _, url := range []string{
		"pkg:deb/debian/openssl@3.0.11-1~deb12u1?arch=amd64&distro=debian-12", "pkg:deb/debian/openssl@3.0.11-1~deb12u2?distro=debian-12", "pkg:deb/debian/openssl@3.0.11-1~deb12u10?distro=debian-12",
		"pkg:deb/debian/zlib@1:1.2.13.dfsg-1?distro=debian-12", "pkg:deb/debian/zlib@1:1.2.11.dfsg-2?distro=debian-12",
		"pkg:apk/alpine/openssl@3.1.4-r0?distro=alpine-3.19.1", "pkg:apk/alpine/openssl@3.1.4-r1?distro=alpine-3.19.1", "pkg:apk/alpine/openssl@3.1.4_rc1-r5?distro=alpine-3.19.1",
		"pkg:pypi/ruamel-yaml@0.18.2rc1", "pkg:pypi/ruamel-yaml@0.18.2", "pkg:pypi/ruamel-yaml@0.18.2.post1", "pkg:pypi/ruamel-yaml@0.17.dev1", "pkg:pypi/numpy@1.26.0", "pkg:pypi/numpy@1.26.1",
		"pkg:npm/%40a/b@2.2.9", "pkg:npm/%40a/b@2.3.0-beta", "pkg:npm/%40a/b@2.3.0", "pkg:npm/%40a/b@1.5.0", "pkg:npm/%40a/b@1.6.0", "pkg:npm/evil@1.0.0",
		"pkg:golang/golang.org/x/net@v0.22.0", "pkg:golang/golang.org/x/net@v0.23.0", "pkg:golang/golang.org/x/net@v0.0.0-20180814160000-abcdefabcdef",
		"pkg:cran/commonMark@1.7", "pkg:cran/commonMark@1.8",
	} {
		list := components(url)
		found, err := db.Find(t.Context(), list)
		if err != nil {
			t.Fatal(err)
		}
		var ours []string
		for _, f := range found {
			ours = append(append(ours, f.ID), f.Aliases...)
		}
		theirs := scan(t, scanner, dir, list)
		for _, id := range theirs {
			if !slices.Contains(ours, id) {
				t.Errorf("%s: osv-scanner alone reports %s; ours are %q", url, id, ours)
			}
		}
		for _, f := range found {
			if !slices.ContainsFunc(append(f.Aliases, f.ID), func(id string) bool { return slices.Contains(theirs, id) }) {
				t.Errorf("%s: osv-scanner does not report %s; its are %q", url, f.ID, theirs)
			}
		}
	}
}

// scan returns the ids that osv-scanner reports for components.
func scan(t *testing.T, scanner, dir string, list []sbom.Component) []string {
	t.Helper()
	doc, err := sbom.Image{Name: "x", Digest: "sha256:" + strings.Repeat("0", 64), Platform: "linux/amd64", Created: time.Unix(0, 0), Components: list}.Document(sbom.CycloneDX)
	at := filepath.Join(t.TempDir(), "bom.cdx.json")
	if err == nil {
		err = os.WriteFile(at, doc, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), scanner, "scan", "source", "--offline-vulnerabilities", "--local-db-path", dir, "--format", "json", "--all-vulns", "-L", at)
	cmd.Env = append(os.Environ(), "OSV_SCANNER_LOCAL_DB_CACHE_DIRECTORY="+dir)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok && failed.ExitCode() == 1 { // something was found
		err = nil
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	var in struct {
		Results []struct {
			Packages []struct {
				Vulnerabilities []struct {
					ID string `json:"id"`
				} `json:"vulnerabilities"`
			} `json:"packages"`
		} `json:"results"`
	}
	if err := json.Unmarshal(out, &in); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var ids []string
	for _, r := range in.Results {
		for _, p := range r.Packages {
			for _, v := range p.Vulnerabilities {
				ids = append(ids, v.ID)
			}
		}
	}
	return ids
}
