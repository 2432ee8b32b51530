package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway.dev/services/internal/testkit"
)

// openVEX writes an OpenVEX document that rules out a vulnerability of a package, and returns its path.
func openVEX(t *testing.T, name, id, purl string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name+".json")
	content := fmt.Sprintf(`{"@context":"https://openvex.dev/ns/v0.2.0","@id":"https://example.org/%s","author":"x","timestamp":"2026-11-01T00:00:00Z","version":1,"statements":[
		{"vulnerability":{"name":%q},"products":[{"@id":%q}],"status":"not_affected","justification":"vulnerable_code_not_present"}]}`, name, id, purl)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A scannedRequest is a request with a required scan.
type scannedRequest struct {
	p                *program
	id, scan, target string
	token            string
}

// requestScanned requests an image with a required scan that tolerates nothing.
func (p *program) requestScanned(t *testing.T, body map[string]any, token string) scannedRequest {
	t.Helper()
	body["scanMode"], body["scanLevels"] = "required", []string{}
	var header []string
	if token != "" {
		header = []string{"Authorization", "Bearer " + token}
	}
	made := p.submitScanned(t, body, header...)
	return scannedRequest{p, text(made, "requestId"), text(made, "scanId"), text(made, "targetImage"), token}
}

// want checks the verdict in the status and in the scan, and by which document a vulnerability is ruled out.
func (j scannedRequest) want(t *testing.T, who string, allowed bool, document string) {
	t.Helper()
	s := j.p.awaitStatus(t, j.id, isDone)
	if s["succeeded"] != allowed {
		t.Errorf("%s: the status is %v, want %t", who, s, allowed)
	}
	var header []string
	if j.token != "" {
		header = []string{"Authorization", "Bearer " + j.token}
	}
	var scan struct {
		Allowed         bool
		Counts          map[string]int
		Vulnerabilities []struct{ ID, Status, Justification, Document string }
	}
	r := j.p.call(http.MethodGet, "/v1alpha1/scans/"+j.scan, nil, header...)
	mustJSON(t, r.body, &scan)
	got := ""
	for _, v := range scan.Vulnerabilities {
		if v.ID != "CVE-2026-1" || v.Status == "" {
			continue
		}
		if got = v.Document; v.Status != "not_affected" || v.Justification != "vulnerable_code_not_present" {
			t.Errorf("%s: the vulnerability is %+v", who, v)
		}
	}
	if scan.Allowed != allowed || got != document || (scan.Counts["CRITICAL"] == 0) != allowed || scan.Counts["LOW"] != 0 {
		t.Errorf("%s: the scan is %d %s, want %t by %q", who, r.status, r.body, allowed, document)
	}
	if r := j.p.call(http.MethodGet, "/v1alpha1/scans/"+j.scan+"/logs", nil, header...); document != "" && !strings.Contains(string(r.body), "Ruled out by the VEX document "+document+": 1") {
		t.Errorf("%s: the log is %s", who, r.body)
	}
}

// pulls checks that each replica serves or refuses the image within the time for which it caches a verdict.
func (j scannedRequest) pulls(t *testing.T, who string, status int) {
	t.Helper()
	_, rest, _ := strings.Cut(j.target, "/")
	name, tag, _ := strings.Cut(rest, ":")
	for _, replica := range j.p.replicas {
		if err := within(2*time.Minute, func() error {
			r := request(t, http.MethodGet, "http://"+replica+"/v2/"+name+"/manifests/"+tag, nil)
			if r.status != status {
				return fmt.Errorf("%d %s", r.status, r.body)
			}
			return nil
		}); err != nil {
			t.Errorf("the pull of %s: %v, want %d", who, err, status)
		}
	}
}

// TestVEXOfUsersAndOrganisations scans an image, and a build that two users share. The documents of a user and of an
// organisation must apply to their own requests only, and immediately.
func TestVEXOfUsersAndOrganisations(t *testing.T) {
	t.Parallel()
	up, channel, dir := testkit.NewRegistry(t, testkit.Open), newArtifacts(t), t.TempDir()
	scanDatabase(t, dir, advisory{"CVE-2026-1", "libc6", "3.0", isCritical}, advisory{"CVE-2026-2", "zlib1g", "9", isLow})
	image := up.Push(t, "lib/bad:1", debianImage(t, "amd64", "libc6", "2.36", "zlib1g", "1"))
	more := bare(channel.URL)
	for k, v := range scanned(dir) {
		more[k] = v
	}
	more["scan_vex"] = openVEX(t, "site", "CVE-2026-2", "pkg:deb/debian/zlib1g")
	mine := openVEX(t, "site", "CVE-2026-1", "pkg:deb/debian/libc6")
	eachCopyShape(t, []string{up.Host}, more, func(t *testing.T, p *program) {
		other := p.newUser("other")
		of := func(token string, more ...any) scannedRequest {
			body := map[string]any{"containerImage": image}
			for i := 0; i < len(more); i += 2 {
				body[more[i].(string)] = more[i+1]
			}
			return p.requestScanned(t, body, token)
		}
		own, theirs, anonymous := of(p.token), of(other), of("")
		built, theirBuilt := p.requestScanned(t, environment(image, "libzlib"), p.token), p.requestScanned(t, environment(image, "libzlib"), other)
		all := map[string]scannedRequest{"the user": own, "another user": theirs, "an anonymous client": anonymous, "a build": built, "a build of another user": theirBuilt}
		for who, j := range all {
			j.want(t, who, false, "")
		}
		own.pulls(t, "the user", http.StatusForbidden)
		theirBuilt.pulls(t, "another user's build", http.StatusForbidden)

		p.checkScanCommand(t, image, mine)
		p.mustSlipway(t, "vex", "add", mine)
		for who, j := range all {
			if j.token == p.token {
				j.want(t, who, true, "user/site")
			} else {
				j.want(t, who, false, "")
			}
		}
		of(p.token).pulls(t, "a new request", http.StatusOK)
		own.pulls(t, "the user", http.StatusOK)
		built.pulls(t, "the build", http.StatusOK)
		of(other).pulls(t, "another user", http.StatusForbidden)
		theirBuilt.pulls(t, "another user's build", http.StatusForbidden)
		anonymous.pulls(t, "an anonymous client", http.StatusForbidden)
		if out := p.mustSlipway(t, "scan", image, "--levels", "low"); !strings.Contains(out, "user/site: vulnerable_code_not_present") {
			t.Errorf("slipway scan: %s", out)
		}

		if out := p.mustSlipway(t, "vex", "list"); !strings.Contains(out, "site") {
			t.Errorf("slipway vex list: %s", out)
		}
		if out := p.mustSlipway(t, "vex", "show", "site"); !json.Valid([]byte(out)) || !strings.Contains(out, "CVE-2026-1") {
			t.Errorf("slipway vex show: %s", out)
		}
		p.mustSlipway(t, "vex", "delete", "site")
		own.want(t, "without the document", false, "")
		built.want(t, "a build without the document", false, "")

		workspace := p.newOrganisation(t, "lab")
		p.mustSlipway(t, "vex", "add", mine, "--org", "lab", "--name", "base")
		inside := of(p.token, "towerWorkspaceId", workspace)
		inside.want(t, "in a workspace", true, "organization/base")
		inside.pulls(t, "in a workspace", http.StatusOK)
		own.want(t, "outside of the workspace", false, "")
		theirs.want(t, "another user", false, "")
		if r := request(t, http.MethodPut, p.platform+"/vex/base?orgId="+p.orgID(t, "lab"), map[string]any{"content": "{}"}, "Authorization", "Bearer "+other); r.status != http.StatusForbidden {
			t.Errorf("a document of an organisation by another user: %d %s", r.status, r.body)
		}
	})
}

// mustSlipway runs the command line, and returns its standard output.
func (p *program) mustSlipway(t *testing.T, args ...string) string {
	t.Helper()
	out, errs, err := p.slipway(args...)
	if err != nil {
		t.Fatalf("slipway %v: %v\n%s", args, err, errs)
	}
	return out
}

// checkScanCommand scans an image with a critical vulnerability with the command line, without and with a document.
func (p *program) checkScanCommand(t *testing.T, image, document string) {
	t.Helper()
	for _, c := range []struct {
		args   string
		code   string
		stderr string
	}{
		{"", "", "1 critical; 1 ruled out by VEX documents"},
		{"--levels low,medium", "exit status 1", "1 critical"},
		{"--levels low,critical", "", ""},
		{"--levels low,medium --vex " + document, "", "2 ruled out"},
		{"--fail-on low --vex " + document, "", ""},
		{"--levels all", "exit status 2", "--levels"},
		{"--levels low --fail-on high", "exit status 2", "exclude"},
		{"--vex " + document + ".missing", "exit status 1", "missing"},
	} {
		out, errs, err := p.slipway(append([]string{"scan", image}, strings.Fields(c.args)...)...)
		code := ""
		if err != nil {
			code = err.Error()
		}
		if code != c.code || !strings.Contains(errs, c.stderr) {
			t.Errorf("slipway scan %s: %v, want %s: %s\n%s", c.args, err, c.code, errs, out)
		}
	}
	var scan struct {
		Vulnerabilities []struct{ ID, Status, Document string }
		Counts          map[string]int
	}
	mustJSON(t, []byte(p.mustSlipway(t, "scan", image, "-o", "json", "--vex", document)), &scan)
	if v := scan.Vulnerabilities; len(v) != 2 || len(scan.Counts) != 0 || v[0].Document != document || v[1].Document != "server/site.json" || v[0].Status != "not_affected" {
		t.Errorf("slipway scan -o json: %+v", scan)
	}
}

// newOrganisation creates an organisation with a workspace, and returns the id of the workspace.
func (p *program) newOrganisation(t *testing.T, name string) float64 {
	t.Helper()
	p.platformCall(http.MethodPost, "/orgs", p.token, map[string]any{"organization": map[string]any{"name": name}})
	made := p.platformCall(http.MethodPost, "/orgs/"+p.orgID(t, name)+"/workspaces", p.token, map[string]any{"workspace": map[string]any{"name": "bench"}})
	return made["workspace"].(map[string]any)["id"].(float64)
}

// orgID returns the id of an organisation of the first user.
func (p *program) orgID(t *testing.T, name string) string {
	t.Helper()
	for _, o := range p.platformCall(http.MethodGet, "/orgs", p.token, nil)["organizations"].([]any) {
		if o := o.(map[string]any); o["name"] == name {
			return fmt.Sprintf("%.0f", o["orgId"])
		}
	}
	t.Fatalf("there is no organisation %s", name)
	return ""
}
