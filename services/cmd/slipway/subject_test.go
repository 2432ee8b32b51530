package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// answering is a server that responds to calls by method and path, and records them.
func answering(t *testing.T, answers map[string]string) (url string, calls *[]string) {
	t.Helper()
	calls = &[]string{}
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		what := r.Method + " " + r.URL.Path
		*calls = append(*calls, what)
		answer, ok := answers[what]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			answer = `{"message":"There is no such thing"}`
		}
		if strings.HasSuffix(what, "/sif") {
			w.Header().Set("Content-Length", "0")
			w.Header().Set("Etag", `"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"`)
		}
		_, _ = io.WriteString(w, answer)
	}), calls
}

// TestEveryIDForm passes each form of an ID to every command that accepts one.
func TestEveryIDForm(t *testing.T) {
	t.Parallel()
	const request, build = "abc123", "beef_1"
	forms := []string{request, "localhost:9090/wt/" + request + "/builds:jq--beef", "oras://localhost:9090/wt/" + request + "/builds:jq--beef", build}
	asRequest, asBuild := "GET /v1alpha2/container/"+request, "GET /v1alpha1/builds/"+build
	named := "POST /v1alpha2/container/"
	answers := map[string]string{
		asRequest:                       `{"requestId":"abc123","targetImage":"h/wt/abc123/b:1","buildId":"beef_1","containerFile":"FROM x\n"}`,
		asRequest + "/status":           `{"id":"abc123","status":"DONE"}`,
		"HEAD" + asRequest[3:] + "/sif": "",
		"DELETE" + asRequest[3:]:        "",
		asBuild:                         `{"buildId":"beef_1","status":"COMPLETED","succeeded":true,"containerFile":"FROM x\nRUN y\n","digest":"sha256:d"}`,
		asBuild + "/status":             `{"id":"beef_1","status":"COMPLETED"}`,
		asBuild + "/logs":               "one\ntwo\n",
		asBuild + "/lock":               `{"locks":[{"platform":"linux/amd64","packages":[{"name":"jq","version":"1.7","build":"h1"}]}]}`,
		"DELETE" + asBuild[3:]:          `{"revoked":1}`,
		named + request + "/name":       `{"requestId":"abc123","targetImage":"h/wt/fresh/b:1"}`,
		named + build + "/name":         `{"requestId":"abc123","targetImage":"h/wt/fresh/b:1"}`,
		"POST /v1alpha1/inspect":        `{"container":{"manifest":{"layers":[{"digest":"sha256:l1","size":1500}]}}}`,
	}
	file := filepath.Join(t.TempDir(), "x.sif")
	for _, c := range []struct {
		args               []string
		ofRequest, ofBuild string // an expected call
		out                string // "" if only the form of a request prints this
	}{
		{[]string{"logs"}, asBuild + "/logs", asBuild + "/logs", "one\ntwo\n"},
		{[]string{"builds", "show"}, asBuild, asBuild, "jq 1.7 h1"},
		{[]string{"lock", "-o", "json", "--build"}, asBuild + "/lock", asBuild + "/lock", `"linux/amd64"`},
		{[]string{"status"}, asRequest + "/status", asBuild + "/status", "Status"},
		{[]string{"describe"}, asRequest, asBuild, "FROM x"},
		{[]string{"revoke"}, "DELETE" + asRequest[3:], "DELETE" + asBuild[3:], "Revoked"},
		{[]string{"get"}, named + request + "/name", named + build + "/name", "h/wt/fresh/b:1\n"},
		{[]string{"pull", "--sif", file}, "HEAD" + asRequest[3:] + "/sif", named + build + "/name", ""},
	} {
		for _, id := range forms {
			url, calls := answering(t, answers)
			got := slipway(t.Context(), map[string]string{"SLIPWAY_SERVER": url}, append(slices.Clone(c.args), id)...)
			want := c.ofRequest
			if id == build {
				want = c.ofBuild
			}
			if got.code != 0 || !strings.Contains(got.out, c.out) || !slices.Contains(*calls, want) {
				t.Errorf("slipway %v %s: %+v after %q, want %q", c.args, id, got, *calls, want)
			}
		}
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}

// TestPullByID downloads an image by the id of its request: with the token of a fresh name
// or, for a frozen image, which has none, with the id of the new request.
func TestPullByID(t *testing.T) {
	t.Parallel()
	id, other := strings.Repeat("5f", 32), strings.Repeat("6f", 32)
	for answer, want := range map[string]string{`{"requestId":"` + other + `","containerToken":"abc123","targetImage":"oras://h/wt/abc123/b:1"}`: "abc123", `{"requestId":"` + other + `","targetImage":"oras://q/b:1"}`: other} {
		url, calls := answering(t, map[string]string{
			"POST /v1alpha2/container/" + id + "/name":    answer,
			"GET /v1alpha2/container/" + want + "/status": `{"id":"` + other + `","status":"DONE"}`,
			"HEAD /v1alpha2/container/" + want + "/sif":   "",
		})
		got := slipway(t.Context(), map[string]string{"SLIPWAY_SERVER": url, "SLIPWAY_TOKEN": "secret"}, "pull", id, "--sif", filepath.Join(t.TempDir(), "x.sif"))
		if got.code != 0 {
			t.Errorf("%s: %+v after %q", answer, got, *calls)
		}
	}
}

// TestBuildsShow shows everything known about a build, and omits what does not exist.
func TestBuildsShow(t *testing.T) {
	t.Parallel()
	url, _ := answering(t, map[string]string{
		"GET /v1alpha1/builds/beef_1": `{"buildId":"beef_1","status":"COMPLETED","succeeded":false,"reasonCode":"solve","message":"no such package\n  jqq",` +
			`"targetImage":"127.0.0.1:9092/builds:jqq--beef","served":true,"containerFile":"FROM x\nRUN y\n","condaFile":"dependencies:\n  - jqq\n","duration":2}`,
		"GET /v1alpha1/builds/beef_1/logs": strings.Repeat("line\n", 40) + "last\x1b[31m\n",
	})
	got := slipway(t.Context(), map[string]string{"SLIPWAY_SERVER": url}, "builds", "show", "beef_1")
	want := `Build     beef_1
Status    FAILED (solve)
Message   no such package
            jqq
Duration  2s
Recipe    FROM x
          RUN y
Conda     dependencies:
            - jqq
Log       line
` + strings.Repeat("          line\n", 13) + "          last\n"
	if got.out != want || got.code != 0 {
		t.Errorf("printed\n%s\nwant\n%s\n%s", got.out, want, got.errs)
	}
}

// TestDryRunPrintsNoName checks that a dry run prints no name that looks valid and is not.
func TestDryRunPrintsNoName(t *testing.T) {
	t.Parallel()
	for cached, want := range map[string]string{"false": "h:1/wt/<token>/builds:f00d\n", "true": "h:1/wt/abc123/builds:f00d\n"} {
		url, _ := answering(t, map[string]string{"POST /v1alpha2/container": `{"requestId":"abc123","containerToken":"abc123","buildId":"f00d_0",` +
			`"targetImage":"h:1/wt/abc123/builds:f00d","cached":` + cached + `}`})
		dockerfile := filepath.Join(t.TempDir(), "Dockerfile")
		must(t, os.WriteFile(dockerfile, []byte("FROM x\n"), 0o600))
		got := slipway(t.Context(), map[string]string{"SLIPWAY_SERVER": url}, "build", "-f", dockerfile, "--dry-run")
		if got.out != want || got.code != 0 {
			t.Errorf("cached %s: %+v, want %q", cached, got, want)
		}
	}
}
