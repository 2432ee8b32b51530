package e2e

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"slipway.dev/services/internal/testkit"
)

// pythonCheck runs deploy/python/check.sh and returns its output. It skips the test if the tools
// cannot be installed.
func pythonCheck(t *testing.T, env []string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "../../deploy/python/check.sh", args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 3 {
		t.Skipf("SKIPPED: %s", out)
	}
	if err != nil {
		t.Fatalf("check.sh %s: %v\n%s", strings.Join(args, " "), err, tail(string(out), 8000))
	}
	return string(out)
}

// TestPythonClient checks the Python client's types, and runs its tests with its wheel and a
// server. Then it pulls the images that they requested.
func TestPythonClient(t *testing.T) {
	t.Parallel()
	withSteps := testkit.Real()
	if withSteps {
		needBuilds(t)
	}
	pythonCheck(t, nil, "lint")
	up := testkit.NewRegistry(t, testkit.Open)
	base := up.Push(t, "base/index:1", testkit.Index(t, true, "amd64", "arm64"))
	channel := newHeldArtifacts(t)
	eachCopyShape(t, []string{up.Host}, pythonSettings(channel.URL), func(t *testing.T, p *program) {
		channel.hold()
		other := bare(channel.URL)
		other["limit_searches_anonymous"] = "1/2s"
		limited := oneProcess(t, unraced(common(t, []string{up.Host}, other)))
		results := t.TempDir()
		env := []string{
			"SLIPWAY_SERVER=" + p.url, "SLIPWAY_TOKEN=" + p.token, "SLIPWAY_TEST_BASE=" + base, "SLIPWAY_TEST_CONTROL=" + channel.URL + "/control",
			"SLIPWAY_TEST_LIMITED=" + limited.url, "SLIPWAY_TEST_RESULTS=" + results,
		}
		if withSteps {
			env = append(env, "SLIPWAY_TEST_STEPS="+up.Push(t, "base/busybox:1", busybox(t, true)))
		}
		out := pythonCheck(t, env, "test", "-rs")
		t.Log(tail(out, 300))
		if strings.Contains(out, "SKIPPED") == withSteps {
			t.Errorf("the tests that need steps must run if and only if steps can run:\n%s", out)
		}
		pullRequested(t, results, withSteps)
	})
}

// pythonSettings returns the settings of a server for the Python client, with build steps if real
// servers are used.
func pythonSettings(channel string) settings {
	if testkit.Real() {
		return settings{"conda_channel_alias": channel, "conda_solve_wait": "20s"}
	}
	return bare(channel)
}

// pullRequested pulls the images that the Python client requested.
func pullRequested(t *testing.T, results string, withSteps bool) {
	t.Helper()
	name := func(key string) string {
		t.Helper()
		raw, err := os.ReadFile(filepath.Join(results, key))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	for _, key := range []string{"conda", "fresh"} {
		if files(t, pull(t, name(key), "amd64"))["opt/conda/lib/libz.so.1.2.13"] == "" {
			t.Errorf("the packages are not in the image %s", key)
		}
	}
	img := pull(t, name("image"), "arm64")
	cf, err := img.ConfigFile()
	if err != nil || !slices.Equal(cf.Config.Entrypoint, []string{"/bin/new"}) || files(t, img)["opt/hello.txt"] != "packed" {
		t.Errorf("the image with a layer has the config %+v, %v", cf.Config, err)
	}
	host, rest, _ := strings.Cut(name("revoked"), "/")
	path, tag, _ := strings.Cut(rest, ":")
	if r := request(t, http.MethodGet, "http://"+host+"/v2/"+path+"/manifests/"+tag, nil); r.status != http.StatusNotFound {
		t.Errorf("a revoked name is %d %s", r.status, r.body)
	}
	if !withSteps {
		return
	}
	if in := files(t, pull(t, name("dockerfile"), "amd64")); in["in/hello.txt"] != "of the context" || in["in/secret.txt"] != "" {
		t.Errorf("the context is %q", in)
	}
}

// heldArtifacts serves channels of real packages. It blocks requests for libedit until a client
// requests /control/held, and responds with 503 for the channel busy until a client requests
// /control/busy.
type heldArtifacts struct {
	*httptest.Server
	mu   sync.Mutex
	held chan struct{}
	busy bool
}

func newHeldArtifacts(t *testing.T) *heldArtifacts {
	t.Helper()
	packages := newArtifacts(t)
	h := &heldArtifacts{held: make(chan struct{})}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		held, busy := h.held, h.busy
		h.mu.Unlock()
		switch {
		case strings.HasPrefix(r.URL.Path, "/control/"):
			h.release(r.URL.Path)
			return
		case busy && strings.HasPrefix(r.URL.Path, "/busy/"):
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		case strings.HasPrefix(filepath.Base(r.URL.Path), "libedit-"):
			select {
			case <-held:
			case <-r.Context().Done():
				return
			}
		}
		packages.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(h.Close)
	return h
}

// hold restores the initial state, in which libedit is blocked and the channel busy fails.
func (h *heldArtifacts) hold() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held, h.busy = make(chan struct{}), true
}

func (h *heldArtifacts) release(path string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if path == "/control/busy" {
		h.busy = false
		return
	}
	select {
	case <-h.held:
	default:
		close(h.held)
	}
}
