package e2e

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"slipway.dev/services/internal/testkit"
)

// schemathesisVersion is the version on PyPI.
const schemathesisVersion = "4.32.5"

// An allowance is an accepted finding of schemathesis.
type allowance struct {
	// operation, code and text are regular expressions; text matches the finding's message
	// with the response. The codes are ST101 for a server error, ST201 for accepted invalid
	// data, ST202 for rejected valid data, ST203 for a missing header and ST204 for an
	// undefined method.
	operation, code, text string
	reason                string
}

// allowances are the findings that no schema can prevent, each with the reason.
func allowances() []allowance {
	return []allowance{
		{".*", "ST204", `endpoint, or you may not use it|must be a whole number`, "the platform does not tell whether a path exists; fixed segments are read as ids by other methods"},
		{"POST /pairing", "ST203", "", "operator calls are disabled without an account, which comes before who calls"},
		{".*", "ST201", "Incorrect type|Invalid enum value.*null", "null is an absent member, also of an object"},
		{"(POST|PUT) /trace/.*", "ST201", "", "members that a run reports in an unexpected type count as absent"},
		{"GET /oauth/authorize", "ST201", "", "the page is shown for any parameters; they are read when its form is sent"},
		{".*", "ST201", `pattern|too short|shorter|minLength|minimum|enum`, "an empty text or 0 is an absent value; white space around names is removed"},
		{"GET .*/events", "ST201", "lastEventId", "the query parameter is read only if the header Last-Event-ID is absent"},
		{"GET /oauth/oidc", "ST101|ST202", "", "sign-in at a provider is disabled, or the address of the program is not one"},
		{"POST /v1alpha2/containers", "ST201", `"results":\[{"message":"(\\.|[^"])+", ?"code":"request\.`, "an invalid request of several fails in its result only"},
		{".*", "ST101", `set scan_database`, "images are not scanned without data about vulnerabilities, which is 501"},
		{"POST /v1alpha2/validate-creds", "ST101", "cannot be reached", "the registry of the example does not exist"},
		{".*", "ST202", `"message":"(\\.|[^"]){10,}`, "whether a name, a code, a package or a combination has a meaning is not a matter of form; what is a matter of form is in declarable"},
		{".*", "ST101", `"message":"[^"]*(again|cannot be reached|cannot build images|no CRAN mirror is configured)`, "a dependency of the request, such as a channel, a registry of the example or a worker, is unavailable"},
	}
}

// TestSchemathesis sends requests that are generated from the OpenAPI documents to both REST
// APIs. Responses must match the documents, and the documents must be enforced, except for the
// allowances.
func TestSchemathesis(t *testing.T) {
	if !testkit.Real() {
		t.Skip("`make e2e` runs schemathesis")
	}
	t.Parallel()
	program := schemathesis(t)
	up := testkit.NewRegistry(t, testkit.Open)
	for _, name := range []string{"library/alpine:3.20", "library/ubuntu:24.04", "mambaorg/micromamba:2-amazon2023"} {
		up.Push(t, name, testkit.Index(t, true, "amd64", "arm64"))
	}
	channel := newLab(t)
	s := settings{
		"registry_mirrors": "docker.io=" + up.Host, "conda_channel_alias": channel.URL, "egress_allow": "127.0.0.0/8",
		"master_key_file": newMasterKey(t),
	}
	for _, limit := range []string{"pulls", "requests", "searches", "builds"} {
		s["limit_"+limit+"_user"], s["limit_"+limit+"_anonymous"] = "0", "0"
	}
	s["limit_platform"] = "0"
	p := oneProcess(t, common(t, []string{up.Host}, unraced(s)))
	for name, base := range map[string]string{"container": "", "platform": "/api"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report := filepath.Join(t.TempDir(), "report.ndjson")
			cmd := exec.CommandContext(t.Context(), program, "run", p.url+base+"/openapi.json", "-u", p.url+base,
				"-H", "Authorization: Bearer "+p.token, "--exclude-path", "/tokens/delete-all", // revokes the token of this test
				"--phases", "examples,coverage", "--generation-deterministic", "--continue-on-failure", "--max-time", "55",
				"--no-color", "--report", "ndjson", "--report-ndjson-path", report)
			cmd.Dir = t.TempDir()
			out, err := cmd.CombinedOutput()
			cases, findings := readReport(t, report)
			if cases < 500 {
				t.Fatalf("only %d cases ran: %v\n%s", cases, err, tail(string(out), 3000))
			}
			unexpected := 0
			for _, f := range findings {
				if slices.ContainsFunc(allowances(), f.is) {
					continue
				}
				if unexpected++; unexpected <= 20 {
					t.Errorf("%s: %s: %s\n\tsent: %s", f.operation, f.code, f.text, f.sent)
				}
			}
			t.Logf("%d cases, %d findings, %d of them not allowed", cases, len(findings), unexpected)
		})
	}
}

// schemathesis returns the path of the program.
func schemathesis(t *testing.T) string {
	t.Helper()
	return pythonProgram(t, "schemathesis", schemathesisVersion)
}

// pythonProgram returns the path of a program of PyPI, which it installs to the user's cache the
// first time, with more packages in the same environment. It skips the test if Python or PyPI is missing.
func pythonProgram(t *testing.T, name, version string, more ...string) string {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skipf("SKIPPED: %s needs python3: apt-get install python3-venv", name)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "slipway-e2e", name+"-"+version)
	program := filepath.Join(dir, "bin", name)
	if exec.CommandContext(t.Context(), program, "--version").Run() == nil {
		return program
	}
	for _, args := range [][]string{
		{python, "-m", "venv", "--clear", dir},
		{filepath.Join(dir, "bin", "pip"), "install", "--quiet", "--disable-pip-version-check", name + "==" + version},
	} {
		if args[1] == "install" {
			args = append(args, more...)
		}
		if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Skipf("SKIPPED: %s cannot be installed: %s: %v\n%s", name, strings.Join(args, " "), err, tail(string(out), 2000))
		}
	}
	return program
}

// A finding is a failed check of a response.
type finding struct{ operation, code, text, sent string }

// declarable matches refusals that a schema can prevent, since they are about the type, the length
// or the size of a value, or about a field that the document does not name: no allowance covers them.
var declarable = regexp.MustCompile(`must be one of|the maximum is|at most \d+ characters|must not be negative|` +
	`must be a (string|number|boolean|list|object)|cannot unmarshal|invalid character|unknown field|invalid value`)

func (f finding) is(a allowance) bool {
	if f.code == "ST202" && declarable.MatchString(f.text) {
		return false
	}
	matches := func(pattern, text string) bool { return regexp.MustCompile("(?s)" + pattern).MatchString(text) }
	return matches("^("+a.operation+")$", f.operation) && matches("^("+a.code+")$", f.code) && matches(a.text, f.text)
}

// readReport returns the number of test cases in a report, and its findings without duplicates.
func readReport(t *testing.T, path string) (cases int, findings []finding) {
	t.Helper()
	type content struct {
		Base64 string `json:"$base64"`
	}
	var line struct {
		ScenarioFinished struct {
			Recorder struct {
				Label string
				Cases map[string]struct {
					Value struct {
						Method, Path string
						Body, Query  json.RawMessage
					}
				}
				Checks map[string][]struct {
					Status string
					Info   struct {
						Failure struct{ Code, Message string }
					} `json:"failure_info"`
				}
				Interactions map[string]struct {
					Response struct{ Content content }
				}
			}
		}
	}
	file, err := os.Open(path)
	if err != nil {
		t.Log(err)
		return 0, nil
	}
	defer file.Close()
	seen := map[finding]bool{}
	lines := bufio.NewReader(file)
	for {
		raw, err := lines.ReadBytes('\n')
		if err != nil {
			return cases, findings
		}
		line.ScenarioFinished.Recorder.Cases, line.ScenarioFinished.Recorder.Checks, line.ScenarioFinished.Recorder.Interactions = nil, nil, nil
		if err := json.Unmarshal(raw, &line); err != nil {
			t.Fatalf("%v: %.300s", err, raw)
		}
		r := line.ScenarioFinished.Recorder
		for id, checks := range r.Checks {
			cases++
			sent := r.Cases[id].Value
			body, _ := base64.StdEncoding.DecodeString(r.Interactions[id].Response.Content.Base64)
			for _, c := range checks {
				if c.Status != "failure" {
					continue
				}
				f := finding{operation: r.Label, code: c.Info.Failure.Code, text: tail(c.Info.Failure.Message, 500) + "\n" + string(body[:min(len(body), 500)])}
				if c.Info.Failure.Code == "ST204" {
					f.operation = sent.Method + " " + sent.Path
				}
				if seen[f] {
					continue
				}
				seen[f] = true
				f.sent = string(sent.Body[:min(len(sent.Body), 400)]) + " " + string(sent.Query[:min(len(sent.Query), 400)])
				findings = append(findings, f)
			}
		}
	}
}
