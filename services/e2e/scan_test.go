package e2e

import (
	"archive/zip"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"slipway.dev/services/internal/testkit"
)

// An advisory is a record of the scan database about a package of Debian 12.
type advisory struct{ id, pkg, fixed, vector string }

// The vectors of advisories.
const (
	isCritical = "CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:H/I:H/A:H"
	isLow      = "CVSS:3.1/AV:L/AC:H/PR:H/UI:R/S:U/C:L/I:N/A:N"
)

// scanDatabase writes a folder of OSV data, or replaces it.
func scanDatabase(t testing.TB, dir string, list ...advisory) {
	t.Helper()
	folder := filepath.Join(dir, "Debian")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	part := filepath.Join(folder, "part")
	f, err := os.Create(part)
	if err != nil {
		t.Fatal(err)
	}
	w := zip.NewWriter(f)
	for i, a := range list {
		entry, err := w.Create(a.id + ".json")
		if err != nil {
			t.Fatal(err)
		}
		record := map[string]any{
			"schema_version": "1.6.0", "id": a.id, "modified": fmt.Sprintf("2026-11-%02dT00:00:00Z", 1+len(list)+i), "summary": "Problem <b>" + a.id, "details": "x",
			"severity": []any{map[string]any{"type": "CVSS_V3", "score": a.vector}},
			"affected": []any{map[string]any{
				"package": map[string]any{"ecosystem": "Debian:12", "name": a.pkg},
				"ranges":  []any{map[string]any{"type": "ECOSYSTEM", "events": []any{map[string]any{"introduced": "0"}, map[string]any{"fixed": a.fixed}}}},
			}},
		}
		if err := json.NewEncoder(entry).Encode(record); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(part, filepath.Join(folder, "all.zip")); err != nil {
		t.Fatal(err)
	}
}

// debianImage returns an image with installed packages of Debian 12: name and version by turns.
func debianImage(t testing.TB, arch string, packages ...string) v1.Image {
	t.Helper()
	var status strings.Builder
	for i := 0; i < len(packages); i += 2 {
		fmt.Fprintf(&status, "Package: %s\nStatus: install ok installed\nArchitecture: %s\nVersion: %s\n\n", packages[i], arch, packages[i+1])
	}
	img := testkit.Image(t, arch, true)
	for path, content := range map[string]string{"var/lib/dpkg/status": status.String(), "usr/lib/os-release": "ID=debian\nVERSION_ID=\"12\"\n"} {
		gz, _ := testkit.Tar(t, path, content)
		var err error
		if img, err = mutate.AppendLayers(img, static.NewLayer(gz, types.OCILayer)); err != nil {
			t.Fatal(err)
		}
	}
	return img
}

// scanned returns the settings of a server that scans with a folder of OSV data.
func scanned(dir string) settings {
	return settings{"scan_database": dir}
}

// awaitStatus waits until the status of a request is satisfactory.
func (p *program) awaitStatus(t *testing.T, id string, check func(map[string]any) bool) map[string]any {
	t.Helper()
	var last map[string]any
	if err := within(2*time.Minute, func() error {
		r := p.call(http.MethodGet, "/v1alpha2/container/"+id+"/status", nil)
		last = nil
		if err := json.Unmarshal(r.body, &last); err != nil || !check(last) {
			return fmt.Errorf("the status is %d %s", r.status, r.body)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return last
}

func isDone(s map[string]any) bool { return s["status"] == "DONE" }

// submitScanned requests a scanned image. It waits for a server that is still loading its data.
func (p *program) submitScanned(t *testing.T, body map[string]any, header ...string) map[string]any {
	t.Helper()
	var out map[string]any
	if err := within(2*time.Minute, func() error {
		r := p.call(http.MethodPost, "/v1alpha2/container", body, header...)
		if r.status != http.StatusOK {
			return fmt.Errorf("%d %s", r.status, r.body)
		}
		return json.Unmarshal(r.body, &out)
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

// pulled requests the manifest of an issued name from each replica.
func (p *program) pulled(t *testing.T, image string, status int, contains string) {
	t.Helper()
	_, rest, _ := strings.Cut(image, "/")
	name, tag, _ := strings.Cut(rest, ":")
	for _, replica := range p.replicas {
		r := request(t, http.MethodGet, "http://"+replica+"/v2/"+name+"/manifests/"+tag, nil)
		if r.status != status || !strings.Contains(string(r.body), contains) {
			t.Errorf("the pull of %s: %d %s, want %d %s", image, r.status, r.body, status, contains)
		}
	}
}

// TestScans scans images that exist and images with additions, asynchronously and as a condition of their pull.
func TestScans(t *testing.T) {
	t.Parallel()
	up, dir := testkit.NewRegistry(t, testkit.Open), t.TempDir()
	scanDatabase(t, dir, advisory{"CVE-2026-1", "libc6", "3.0", isCritical}, advisory{"CVE-2026-2", "zlib1g", "9", isLow})
	bad := up.Push(t, "lib/bad:1", debianImage(t, "amd64", "libc6", "2.36", "zlib1g", "1"))
	low := up.Push(t, "lib/low:1", debianImage(t, "amd64", "libc6", "3.0", "zlib1g", "1"))
	release, _ := testkit.Tar(t, "usr/lib/os-release", "ID=debian\nVERSION_ID=\"13\"\n")
	newer, err := mutate.AppendLayers(debianImage(t, "amd64", "libc6", "3.0"), static.NewLayer(release, types.OCILayer))
	if err != nil {
		t.Fatal(err)
	}
	unknown := up.Push(t, "lib/unknown:1", newer)
	index := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: debianImage(t, "amd64", "libc6", "4"), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}}},
		mutate.IndexAddendum{Add: debianImage(t, "arm64", "libc6", "1"), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "arm64"}}})
	both := up.Push(t, "lib/both:1", index)
	inner, err := index.RawManifest()
	if err != nil {
		t.Fatal(err)
	}
	nested := up.Push(t, "lib/nested:1", mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: debianImage(t, "amd64", "libc6", "5"), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}}},
		mutate.IndexAddendum{Add: index}))
	eachShape(t, []string{up.Host}, scanned(dir), func(t *testing.T, p *program) {
		async := p.submitScanned(t, map[string]any{"containerImage": bad, "scanMode": "async"})
		if async["succeeded"] != true || text(async, "scanId") == "" || async["message"] != nil {
			t.Errorf("the response is %v", async)
		}
		s := p.awaitStatus(t, text(async, "requestId"), func(s map[string]any) bool { return s["vulnerabilities"] != nil })
		if found, _ := s["vulnerabilities"].(map[string]any); s["succeeded"] != true || found["CRITICAL"] != 1.0 || found["LOW"] != 1.0 || s["scanId"] != async["scanId"] {
			t.Errorf("the status is %v", s)
		}
		p.pulled(t, text(async, "targetImage"), http.StatusOK, "")
		p.checkScan(t, text(async, "scanId"))

		refused := p.submitScanned(t, map[string]any{"containerImage": bad, "scanMode": "required", "scanLevels": []string{"LOW", "MEDIUM"}})
		if refused["succeeded"] != nil || refused["scanId"] == async["scanId"] {
			t.Errorf("the response is %v", refused)
		}
		p.pulled(t, text(refused, "targetImage"), http.StatusForbidden, "The scan found 1 CRITICAL vulnerability, such as CVE-2026-1 in libc6 2.36")
		s = p.awaitStatus(t, text(refused, "requestId"), isDone)
		if s["succeeded"] != false || s["reasonCode"] != "scan" || !strings.Contains(text(s, "reason"), "CRITICAL") {
			t.Errorf("the status is %v", s)
		}

		allowed := p.submitScanned(t, map[string]any{"containerImage": low, "scanMode": "required", "scanLevels": []string{"low"}, "containerConfig": map[string]any{
			"env": []string{"A=B"}, "layers": []any{dataLayer(t, "opt/tool/run", "#!/bin/sh")},
		}})
		p.pulled(t, text(allowed, "targetImage"), http.StatusOK, "")
		if s = p.awaitStatus(t, text(allowed, "requestId"), isDone); s["succeeded"] != true {
			t.Errorf("the status is %v", s)
		}

		uncovered := p.submitScanned(t, map[string]any{"containerImage": unknown, "scanMode": "required"})
		p.pulled(t, text(uncovered, "targetImage"), http.StatusForbidden, "The server has no data about Debian:13")

		one := p.submitScanned(t, map[string]any{"containerImage": both, "scanMode": "required"})
		p.pulled(t, text(one, "targetImage"), http.StatusOK, "")
		p.pulledByDigest(t, text(one, "targetImage"), index, map[string]int{"amd64": http.StatusOK, "arm64": http.StatusForbidden})

		behind := p.submitScanned(t, map[string]any{"containerImage": nested, "scanMode": "required"})
		p.pulled(t, text(behind, "targetImage"), http.StatusOK, sha(inner))
		p.pulledByDigest(t, text(behind, "targetImage"), index, map[string]int{"amd64": http.StatusForbidden, "arm64": http.StatusForbidden})

		for _, value := range []string{"A=1", "A=2"} { // what is added has no effect on the scan
			with := p.submitScanned(t, map[string]any{"containerImage": both, "scanMode": "required", "containerConfig": map[string]any{"env": []string{value}}})
			p.pulledWhole(t, text(with, "targetImage"))
		}

		mine := p.submitScanned(t, map[string]any{"containerImage": low, "scanMode": "async"}, "Authorization", "Bearer "+p.token)
		if r := p.call(http.MethodGet, "/v1alpha1/scans/"+text(mine, "scanId"), nil); r.status != http.StatusUnauthorized {
			t.Errorf("a scan of a user: %d %s", r.status, r.body)
		}
		other := p.newUser("other")
		if r := p.call(http.MethodGet, "/v1alpha1/scans/"+text(mine, "scanId"), nil, "Authorization", "Bearer "+other); r.status != http.StatusForbidden {
			t.Errorf("a scan of another user: %d %s", r.status, r.body)
		}
		if r := p.call(http.MethodGet, "/v1alpha1/scans/"+text(mine, "scanId"), nil, "Authorization", "Bearer "+p.token); r.status != http.StatusOK {
			t.Errorf("the scan of its user: %d %s", r.status, r.body)
		}
		for _, bad := range []map[string]any{{"scanMode": "required", "format": "sif"}, {"scanLevels": []string{"LOW"}}, {"scanMode": "async", "scanLevels": []string{"none"}}} {
			bad["containerImage"] = low
			if r := p.call(http.MethodPost, "/v1alpha2/container", bad); r.status != http.StatusBadRequest {
				t.Errorf("%v: %d %s", bad, r.status, r.body)
			}
		}
		for args, want := range map[string]string{low: "CVE-2026-2", bad + " --fail-on critical": "1 critical"} {
			out, errs, err := p.slipway(append([]string{"scan"}, strings.Fields(args)...)...)
			if (err != nil) != strings.Contains(args, "--fail-on") || !strings.Contains(out+errs, want) {
				t.Errorf("slipway scan %s: %v %s\n%s", args, err, errs, out)
			}
		}
	})
}

// checkScan reads a scan of an image with two vulnerabilities.
func (p *program) checkScan(t *testing.T, id string) {
	t.Helper()
	var scan struct {
		ID, Status, Duration, Digest, Database string
		ScanMode                               string
		Packages                               int
		Allowed                                bool
		Vulnerabilities                        []struct{ ID, Severity, Title, PkgName, InstalledVersion, FixedVersion, PrimaryURL string }
	}
	r := p.call(http.MethodGet, "/v1alpha1/scans/"+id, nil)
	mustJSON(t, r.body, &scan)
	if scan.ID != id || scan.Status != "SUCCEEDED" || scan.Duration == "" || scan.Digest == "" || scan.Database == "" || scan.Allowed || len(scan.Vulnerabilities) != 2 || scan.ScanMode != "async" || scan.Packages != 2 {
		t.Fatalf("the scan is %d %s", r.status, r.body)
	}
	if v := scan.Vulnerabilities[0]; v.ID != "CVE-2026-1" || v.Severity != "CRITICAL" || v.PkgName != "libc6" || v.InstalledVersion != "2.36" || v.FixedVersion != "3.0" || v.Title == "" || v.PrimaryURL == "" {
		t.Errorf("the first vulnerability is %+v", v)
	}
	for path, want := range map[string]string{"spdx": "SPDX-2.3", "cyclonedx": "pkg:deb/debian/libc6@2.36", "logs": "CRITICAL: 1"} {
		r := p.call(http.MethodGet, "/v1alpha1/scans/"+id+"/"+path, nil)
		if r.status != http.StatusOK || !strings.Contains(string(r.body), want) {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
	if r := p.call(http.MethodGet, "/v1alpha1/scans/sc-0000000000000000_1", nil); r.status != http.StatusNotFound {
		t.Errorf("an unknown scan: %d %s", r.status, r.body)
	}
}

// pulledByDigest requests the manifests of an index by architecture.
func (p *program) pulledByDigest(t *testing.T, image string, index v1.ImageIndex, want map[string]int) {
	t.Helper()
	m, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(image, "/")
	name, _, _ := strings.Cut(rest, ":")
	for _, e := range m.Manifests {
		for _, replica := range p.replicas {
			r := request(t, http.MethodGet, "http://"+replica+"/v2/"+name+"/manifests/"+e.Digest.String(), nil)
			if r.status != want[e.Platform.Architecture] {
				t.Errorf("%s: %d %s", e.Platform.Architecture, r.status, r.body)
			}
		}
	}
}

// pulledWhole requests the index of an issued name and the manifest for linux/amd64 from each replica.
func (p *program) pulledWhole(t *testing.T, image string) {
	t.Helper()
	_, rest, _ := strings.Cut(image, "/")
	name, tag, _ := strings.Cut(rest, ":")
	for _, replica := range p.replicas {
		at := "http://" + replica + "/v2/" + name + "/manifests/"
		var x v1.IndexManifest
		mustJSON(t, request(t, http.MethodGet, at+tag, nil).body, &x)
		for _, e := range x.Manifests {
			if r := request(t, http.MethodGet, at+e.Digest.String(), nil); e.Platform.Architecture == "amd64" && r.status != http.StatusOK {
				t.Errorf("%s: %d %s", e.Digest, r.status, r.body)
			}
		}
	}
}

// TestScansOfBuiltImages scans an image when its build has ended, and again when the database has changed.
func TestScansOfBuiltImages(t *testing.T) {
	t.Parallel()
	up, channel, dir := testkit.NewRegistry(t, testkit.Open), newArtifacts(t), t.TempDir()
	scanDatabase(t, dir, advisory{"CVE-2026-1", "other", "3.0", isCritical})
	base := up.Push(t, "base/debian:12", debianImage(t, "amd64", "libc6", "2.36"))
	more := bare(channel.URL)
	for k, v := range scanned(dir) {
		more[k] = v
	}
	more["master_key_file"], more["tag_freshness"] = newMasterKey(t), "0s"
	eachCopyShape(t, []string{up.Host}, more, func(t *testing.T, p *program) {
		hook := testkit.NewHookReceiver(t)
		made := p.platformCall(http.MethodPost, "/webhooks", p.token, map[string]any{"url": hook.URL, "events": []string{"container.scanned"}})
		hook.Verify(text(made, "secret"))
		order := environment(base, "libzlib")
		order["scanMode"], order["scanLevels"] = "required", []string{"low"}
		built := p.submitScanned(t, order, "Authorization", "Bearer "+p.token)
		s := p.awaitStatus(t, text(built, "requestId"), isDone)
		if s["succeeded"] != true || s["vulnerabilities"] != nil && len(s["vulnerabilities"].(map[string]any)) != 0 {
			t.Fatalf("the status is %v", s)
		}
		p.pulled(t, text(built, "targetImage"), http.StatusOK, "")
		at := "/v1alpha1/builds/" + text(built, "buildId") + "/scan"
		for token, want := range map[string]int{"": http.StatusUnauthorized, p.newUser("other"): http.StatusNotFound, p.token: http.StatusOK} {
			var header []string
			if token != "" {
				header = []string{"Authorization", "Bearer " + token}
			}
			if r := p.call(http.MethodGet, at, nil, header...); r.status != want || want == http.StatusOK && !strings.Contains(string(r.body), text(built, "scanId")) {
				t.Errorf("the scan of the build: %d %s, want %d", r.status, r.body, want)
			}
		}

		scanDatabase(t, dir, advisory{"CVE-2026-1", "other", "3.0", isCritical}, advisory{"CVE-2026-3", "libc6", "3.0", isCritical})
		inspect := p.procs[0]
		if len(p.procs) > 1 {
			inspect = p.process("inspect")
		}
		inspect.kill() // it reads the folder at its start
		inspect.start()
		s = p.awaitStatus(t, text(built, "requestId"), func(s map[string]any) bool { return s["succeeded"] == false })
		if s["status"] != "DONE" || text(s, "reason") != "The scan found 1 CRITICAL vulnerability" { // the package is only for clients with the name
			t.Errorf("the status is %v", s)
		}
		awaitMessages(t, hook, "container.scanned "+text(built, "requestId"))
		scanDatabase(t, dir, advisory{"CVE-2026-1", "other", "3.0", isCritical}) // for the next shape
	})
}

// TestScansOff checks the responses of a server without a database, and of one whose database is damaged.
func TestScansOff(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	image := up.Push(t, "lib/a:1", debianImage(t, "amd64", "libc6", "2.36"))
	eachShape(t, []string{up.Host}, nil, func(t *testing.T, p *program) {
		for _, mode := range []string{"async", "required"} {
			r := p.call(http.MethodPost, "/v1alpha2/container", map[string]any{"containerImage": image, "scanMode": mode})
			if r.status != http.StatusNotImplemented || !strings.Contains(string(r.body), "scan_database") {
				t.Errorf("%s: %d %s", mode, r.status, r.body)
			}
		}
		if r := p.call(http.MethodGet, "/v1alpha1/images/vulnerabilities?image="+url.QueryEscape(image), nil); r.status != http.StatusNotImplemented {
			t.Errorf("%d %s", r.status, r.body)
		}
		if r := p.call(http.MethodPost, "/v1alpha2/container", map[string]any{"containerImage": image, "scanMode": "none"}); r.status != http.StatusOK {
			t.Errorf("%d %s", r.status, r.body)
		}
	})
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "Debian"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "Debian", "all.zip"), []byte("PK damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := oneProcess(t, common(t, []string{up.Host}, scanned(dir)))
	if r := p.call(http.MethodPost, "/v1alpha2/container", map[string]any{"containerImage": image, "scanMode": "required"}); r.status != http.StatusServiceUnavailable {
		t.Errorf("a damaged database: %d %s", r.status, r.body)
	}
}

// TestWebPageListsVulnerabilities shows what was found in an image on the pages of the image, of its scan, of its build and
// of its request, as text.
func TestWebPageListsVulnerabilities(t *testing.T) {
	t.Parallel()
	browser := newChromium(t)
	up, channel, dir := testkit.NewRegistry(t, testkit.Open), newArtifacts(t), t.TempDir()
	scanDatabase(t, dir, advisory{"CVE-2026-1", "libc6", "3.0", isCritical}, advisory{"CVE-2026-2", "zlib1g", "9", isCritical}, advisory{"CVE-2026-3", "zlib", "1.9-1", isLow})
	image := up.Push(t, "lib/bad:1", debianImage(t, "amd64", "libc6", "2.36", "zlib1g", "1"))
	slow := up.Push(t, "lib/slow:1", debianImage(t, "amd64", "zlib1g", "9"))
	more := bare(channel.URL)
	more["scan_database"], more["scan_vex"] = dir, openVEX(t, "site", "CVE-2026-2", "pkg:deb/debian/zlib1g")
	p := oneProcess(t, common(t, []string{up.Host}, more))
	order := environment(image, "libzlib")
	order["scanMode"], order["scanLevels"] = "required", []string{"low"}
	built := p.submitScanned(t, order)
	p.awaitStatus(t, text(built, "requestId"), isDone)

	b := openTab(t, browser, p.url+"/view/inspect?image="+url.QueryEscape(image))
	b.await(button("Find vulnerabilities"))
	b.eval(button("Find vulnerabilities") + ".click()")
	b.await(`document.querySelector(".vulnerabilities tbody")?.rows.length === 2`)
	b.await(`document.querySelector(".vulnerabilities").innerText.includes("Problem <b>CVE-2026-1")`)
	b.await(`document.querySelector(".vulnerabilities a").href.startsWith("https://")`)
	b.good("vulnerabilities of an image", p.url)

	const patch = `[...document.querySelectorAll(".copied code")].some((c) => c.innerText === 'slipway patch "$IMAGE" libzlib')`
	b.visit(p.url + "/view/scans/" + text(built, "scanId"))
	b.await(`document.querySelector(".verdict.bad")?.innerText === "The scan found 1 CRITICAL vulnerability, such as CVE-2026-1 in libc6 2.36. The request does not tolerate this."`)
	b.await(`[...document.querySelectorAll("main h2")].map((h) => h.innerText).join() === "Found,Ruled out,Not covered"`)
	b.await(`[...document.querySelectorAll(".vulnerabilities")].map((t) => [...t.tBodies[0].rows].map((r) => r.cells[0].innerText).join()).join(";") === "CVE-2026-1,CVE-2026-3;CVE-2026-2"`)
	b.await(`document.querySelectorAll(".vulnerabilities")[1].innerText.includes("not affected (server/site.json)\tvulnerable_code_not_present")`)
	b.await(`document.querySelector(".facts").innerText.includes("low; the scan is required") && document.querySelector(".facts").innerText.includes("1 critical, 1 low in ")`)
	b.await(patch)
	b.good("scan", p.url)
	const newest = `document.querySelector(".scanned [role=status]")?.innerText.startsWith("1 critical, 1 low.") && ` + patch
	b.visit(p.url + "/view/containers/" + text(built, "requestId"))
	b.await(newest + ` && document.querySelector(".verdict.bad").innerText === "Its scan does not allow it."`)
	b.good("scan of container", p.url)
	b.eval(`document.querySelector(".scanned a").click()`)
	b.await(`location.pathname === "/view/scans/` + text(built, "scanId") + `" && document.querySelector(".vulnerabilities")`)

	reading, release := make(chan struct{}, 100), make(chan struct{})
	up.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/lib/slow/blobs/") {
			reading <- struct{}{}
			<-release
		}
		return false
	})
	mine := p.submitScanned(t, map[string]any{"containerImage": slow, "scanMode": "async"}, "Authorization", "Bearer "+p.token)
	<-reading
	b.visit(p.url + "/view/scans/" + text(mine, "scanId"))
	b.await(`document.querySelector("main [role=alert]")?.innerText === "The scan belongs to the request of a user: sign in as that user."`)
	b.good("scan of a user", p.url)
	b.signIn(p.token)
	b.await(`document.querySelector(".verdict.running")?.innerText === "The image is being scanned."`)
	b.good("running scan", p.url)
	close(release)
	b.await(`document.querySelector(".verdict.good")?.innerText === "No known vulnerabilities were found."`)
	b.good("scan without vulnerabilities", p.url)
	p.awaitStatus(t, text(p.submitScanned(t, order, "Authorization", "Bearer "+p.token), "requestId"), isDone)
	b.visit(p.url + "/view/builds/" + text(built, "buildId"))
	b.await(newest)
	b.good("scan of build", p.url)
	b.visit(p.url + "/view/scans/sc-0000000000000000_1")
	b.await(`document.querySelector(".lead")?.innerText.startsWith("There is no such scan")`)
}

// TestScansSurviveKills kills the process that reads an image; in one process, it has also claimed the scan. All requests for the
// image get the result of one scan.
func TestScansSurviveKills(t *testing.T) {
	t.Parallel()
	up, dir := testkit.NewRegistry(t, testkit.Open), t.TempDir()
	scanDatabase(t, dir, advisory{"CVE-2026-1", "libc6", "3.0", isCritical})
	warm := up.Push(t, "lib/warm:1", debianImage(t, "amd64", "zlib1g", "1"))
	eachShape(t, []string{up.Host}, scanned(dir), func(t *testing.T, p *program) {
		slow := up.Push(t, "lib/slow:"+fmt.Sprint(len(p.procs)), debianImage(t, "amd64", "libc6", "2.36"))
		p.submitScanned(t, map[string]any{"containerImage": warm, "scanMode": "async"}) // the data is loaded
		reading, release := make(chan struct{}, 100), make(chan struct{})
		up.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/lib/slow/blobs/") {
				select {
				case reading <- struct{}{}:
				default:
				}
				select {
				case <-release:
				case <-r.Context().Done():
				}
			}
			return false
		})
		body := map[string]any{"containerImage": slow, "scanMode": "required", "scanLevels": []string{"HIGH"}}
		first := p.submitScanned(t, body)
		second := p.submitScanned(t, body)
		<-reading
		s := p.awaitStatus(t, text(first, "requestId"), func(s map[string]any) bool { return s["status"] == "SCANNING" })
		if s["succeeded"] != nil {
			t.Errorf("the status of a running scan is %v", s)
		}
		inspect := p.procs[0]
		if len(p.procs) > 1 {
			inspect = p.process("inspect")
		}
		inspect.kill()
		close(release)
		inspect.start()
		for _, made := range []map[string]any{first, second} {
			if s := p.awaitStatus(t, text(made, "requestId"), isDone); s["succeeded"] != false || s["reasonCode"] != "scan" {
				t.Errorf("the status is %v", s)
			}
			p.pulled(t, text(made, "targetImage"), http.StatusForbidden, "CVE-2026-1")
		}
		up.Intercept(nil)
		if len(p.procs) == 1 {
			return
		}
		testkit.Until(t, "two scans, with that of the warm image, to be counted", func() error {
			if n := p.scansDone(t); n != 2 {
				return fmt.Errorf("there are %g", n)
			}
			return nil
		})
	})
}

// scansDone returns the number of scans that the replicas of the container role have counted.
func (p *program) scansDone(t *testing.T) (done float64) {
	t.Helper()
	for _, name := range []string{"container-1", "container-2"} {
		r := request(t, http.MethodGet, p.process(name).admin+"/metrics", nil)
		for line := range strings.Lines(string(r.body)) {
			var n float64
			if _, err := fmt.Sscanf(line, `slipway_scans_total{result="done"} %g`, &n); err == nil {
				done += n
			}
		}
	}
	return done
}
