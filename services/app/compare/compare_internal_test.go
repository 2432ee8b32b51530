package compare

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"slipway.dev/services/internal/config"
)

// TestRequests checks the requests for both images.
func TestRequests(t *testing.T) {
	t.Parallel()
	req, err := Read([]byte(`{"packages": {"type": "CONDA", "entries": ["samtools"], "condaOpts": {"mambaImage": "mine/mamba:1", "commands": ["RUN x"]}},
		"containerPlatform": "linux/arm64", "freeze": true, "buildRepository": "h.io/x", "containerConfig": {"env": ["A=b"]}, "later": 1}`))
	if err != nil {
		t.Fatal(err)
	}
	direct, err := directRequest(req)
	if err != nil {
		t.Fatal(err)
	}
	if opts := direct.GetPackages().GetCondaOpts(); opts.GetMambaImage() != "" || opts.GetCommands() != nil || direct.GetFreeze() || direct.GetContainerConfig() != nil || direct.GetContainerPlatform() != "linux/arm64" {
		t.Errorf("the one is asked for with %v", direct)
	}
	o := Options{Config: config.Config{CondaMambaImage: "usual/mamba:2", CondaBaseImage: "usual/base:3"}, Request: req}
	classic := classicRequest(o, direct, "@EXPLICIT\n")
	file, err := base64.StdEncoding.DecodeString(classic.GetContainerFile())
	lock, err2 := base64.StdEncoding.DecodeString(classic.GetCondaFile())
	if err != nil || err2 != nil || string(lock) != "@EXPLICIT\n" || classic.GetPackages() != nil || classic.GetContainerPlatform() != "linux/arm64" ||
		!strings.HasPrefix(string(file), "FROM mine/mamba:1 AS build\n") || !strings.Contains(string(file), "\nFROM usual/base:3\n") {
		t.Errorf("the other is asked for with %v\n%s", classic, file)
	}
}

func TestNotCompared(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`{"containerImage": "alpine"}`:                                                     "has no Conda packages",
		`{"containerFile": "RlJPTQ==", "condaFile": "eA=="}`:                               "has no Conda packages",
		`{"packages": {"entries": ["x"]}, "containerPlatform": "linux/amd64,linux/arm64"}`: "two platforms",
		`{"packages": {"entries": ["x", "pip:y"]}}`:                                        "pip:y comes from PyPI",
		`[`: "not the body of POST /v1alpha2/container",
	} {
		req, err := Read([]byte(raw))
		if err == nil {
			_, err = directRequest(req)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", raw, err, want)
		}
	}
}

// TestServiceErrorIsShown checks that the service's error is shown.
func TestServiceErrorIsShown(t *testing.T) {
	t.Parallel()
	const ask, status, record = "POST /v1alpha2/container", "GET /v1alpha2/container/abc/status", "GET /v1alpha1/builds/beef_1"
	made := map[string]string{ask: `{"requestId":"abc","buildId":"beef_1","targetImage":"h/wt/abc/b:1"}`, status: `{"status":"DONE","succeeded":true}`}
	for want, answers := range map[string]map[string]string{
		"No worker of this service": {ask: `!{"message":"No worker of this service builds for linux/arm64"}`},
		"does not respond like":     {ask: `<html>`},
		"failed (build): the disk":  {ask: made[ask], status: `{"status":"DONE","succeeded":false,"reasonCode":"build","message":"the disk is full"}`},
		"slipway logs beef_1":       {ask: made[ask], status: made[status], record: `{"buildId":"beef_1","containerFile":"FROM x AS build\nFROM y\nCOPY --from=build /opt/conda /opt/conda\n"}`},
		"404":                       {ask: made[ask], status: made[status], record: `{"buildId":"beef_1"}`},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answer, ok := answers[r.Method+" "+r.URL.Path]
			text, refused := strings.CutPrefix(answer, "!")
			if !ok {
				w.WriteHeader(http.StatusNotFound)
			} else if refused {
				w.WriteHeader(http.StatusNotImplemented)
			}
			_, _ = w.Write([]byte(text))
		}))
		_, err := Run(t.Context(), Options{Server: server.URL + "/", Request: Of([]string{"samtools"}), Progress: func(string) {}})
		server.Close()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if of := Of([]string{"a=1", "b"}); of.GetPackages().GetType() != "CONDA" || len(of.GetPackages().GetEntries()) != 2 {
		t.Errorf("of specifications: %v", of)
	}
}
