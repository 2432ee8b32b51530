package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// batchServer is a server for `slipway batch`. Requests for the image "bad" fail; those for
// packages are built, and the build of the environment that contains "broken" fails.
type batchServer struct {
	mu sync.Mutex
	// requests are the container requests in the order in which they came.
	requests []map[string]any
	// digest is the digest of every image.
	digest string
}

const batchLock = "version: 6\nenvironments: {}\n"

func (b *batchServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	path := r.URL.Path
	switch {
	case path == "/v1alpha2/containers":
		b.submit(w, r)
	case strings.HasSuffix(path, "/events"):
		failed := strings.Contains(path, "broken")
		fmt.Fprintf(w, "event: done\nid: 1\ndata: {\"succeeded\":%t,\"reasonCode\":\"build\",\"message\":\"no space\"}\n\n", !failed)
	case strings.HasSuffix(path, "/status"):
		_, _ = io.WriteString(w, `{"status":"DONE","succeeded":true}`)
	case strings.HasSuffix(path, "/lock"):
		_, _ = io.WriteString(w, batchLock)
	default: // a build or a request
		_, _ = io.WriteString(w, `{"digest":"`+b.digest+`","digests":["`+b.digest+`"]}`)
	}
}

func (b *batchServer) submit(w http.ResponseWriter, r *http.Request) {
	var body struct{ Requests []map[string]any }
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || r.Header.Get("Accept") != "application/x-ndjson" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	b.requests = body.Requests
	for i, request := range slices.Backward(body.Requests) {
		image, _ := request["containerImage"].(string)
		packages, _ := request["packages"].(map[string]any)
		switch {
		case image == "bad":
			fmt.Fprintf(w, `{"index":%d,"message":"There is no image bad","code":"image.notFound","details":{"a":1}}`+"\n", i)
		case image != "":
			fmt.Fprintf(w, `{"index":%d,"response":{"requestId":"r%d","containerToken":"t%d","targetImage":"h/wt/t%d/%s","containerImage":"%s","succeeded":true}}`+"\n", i, i, i, i, image, image)
		default:
			build := "3f2a_1"
			if packages["environment"] == base64.StdEncoding.EncodeToString([]byte("name: broken\n")) {
				build = "broken_1"
			}
			fmt.Fprintf(w, `{"index":%d,"response":{"requestId":"r%d","containerToken":"t%d","targetImage":"h/wt/t%d/builds:e","containerImage":"h/builds:e","buildId":"%s","cached":false}}`+"\n", i, i, i, i, build)
		}
	}
}

// batch runs the command in a folder of its own, whose lock file it returns.
func (b *batchServer) batch(t *testing.T, folder, in string, args ...string) (outcome, string) {
	t.Helper()
	path := filepath.Join(folder, "slipway.lock")
	url := serve(t, b.ServeHTTP)
	got := slipwayWith(t.Context(), in, nil, append([]string{"batch", "--server", url, "--lock", path}, args...)...)
	lock, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return got, string(lock)
}

// TestBatch checks the table, the lock file, and that a second run requests what it records.
func TestBatch(t *testing.T) {
	t.Parallel()
	folder, b := t.TempDir(), &batchServer{digest: "sha256:" + strings.Repeat("1", 64)}
	environment := filepath.Join(folder, "tools.yml")
	must(t, os.WriteFile(environment, []byte("dependencies: [bwa]\n"), 0o600))
	const in = "{\"containerImage\":\"ubuntu:24.04\"}\n"
	got, lock := b.batch(t, folder, in, "-", environment, "--await", "--channel", "lab")
	want := "IMAGE                      STATUS  NAME\nh/wt/t0/ubuntu:24.04       ready   -:1\nh/wt/t1/builds:e           ready   " + environment + "\n"
	if got.code != 0 || strings.Join(strings.Fields(got.out), " ") != strings.Join(strings.Fields(want), " ") || !strings.Contains(got.errs, "2 of 2 requested, 1 of 1 builds done (") {
		t.Errorf("got %+v, want\n%s", got, want)
	}
	if packages, ok := b.requests[1]["packages"].(map[string]any); !ok || fmt.Sprint(packages["channels"]) != "[lab]" || b.requests[0]["packages"] != nil {
		t.Errorf("requested %v", b.requests)
	}
	for _, text := range []string{`"name": "-:1"`, `"name": "` + environment + `"`, `"digest": "` + b.digest + `"`, `version: 6\nenvironments: {}\n`} {
		if !strings.Contains(lock, text) {
			t.Errorf("the lock file does not have %s:\n%s", text, lock)
		}
	}
	got, again := b.batch(t, folder, in, environment, "-", "--await", "--channel", "lab")
	if got.code != 0 || again != lock {
		t.Errorf("the second run: %+v, and the lock file is\n%s\nafter\n%s", got, again, lock)
	}
	packages, ok := b.requests[0]["packages"].(map[string]any)
	if !ok || packages["environment"] != "dmVyc2lvbjogNgplbnZpcm9ubWVudHM6IHt9Cg==" || packages["channels"] != nil || b.requests[1]["containerImage"] != "ubuntu@"+b.digest {
		t.Errorf("the second run requested %v", b.requests)
	}
	b.digest = "sha256:" + strings.Repeat("2", 64)
	if got, after := b.batch(t, folder, in, environment, "-", "--channel", "lab"); got.code != 1 || !strings.Contains(got.errs, "-:1: the image is "+b.digest+", and the lock file has sha256:111") ||
		!strings.Contains(got.errs, environment+": the image is "+b.digest+" instead of sha256:111") || !strings.Contains(got.errs, "1 of 2 containers failed") {
		t.Errorf("images that differ: %+v, and the lock file is\n%s", got, after)
	}
	if got, after := b.batch(t, folder, in, environment, "-", "--channel", "lab", "--update"); got.code != 0 || !strings.Contains(after, b.digest) || strings.Contains(after, "sha256:111") || b.requests[1]["containerImage"] != "ubuntu:24.04" {
		t.Errorf("--update: %+v, and the lock file is\n%s", got, after)
	}
}

// TestBatchFailures checks that a failure affects no other container, but the exit code.
func TestBatchFailures(t *testing.T) {
	t.Parallel()
	folder, b := t.TempDir(), &batchServer{digest: "sha256:" + strings.Repeat("1", 64)}
	broken := filepath.Join(folder, "broken.yml")
	must(t, os.WriteFile(broken, []byte("name: broken\n"), 0o600))
	got, lock := b.batch(t, folder, `{"containerImage":"bad"}{"containerImage":"good"}`, "-", broken, "--await")
	if got.code != 1 || !strings.Contains(got.out, "h/wt/t1/good  ready") || strings.Count(got.out, "failed") != 2 {
		t.Errorf("got %+v", got)
	}
	for _, text := range []string{"-:1: There is no image bad\n", "build broken_1 failed (build): no space", "slipway: 2 of 3 containers failed"} {
		if !strings.Contains(got.errs, text) {
			t.Errorf("%q does not have %q", got.errs, text)
		}
	}
	if strings.Contains(lock, "-:1") || strings.Contains(lock, "broken") || !strings.Contains(lock, "-:2") {
		t.Errorf("the lock file is\n%s", lock)
	}
	got, _ = b.batch(t, t.TempDir(), `{"containerImage":"bad"}{"containerImage":"good"}`, "-", "--jq", `.results[] | [.name, .status, .code, .details.a]`)
	if want := "[\"-:1\",\"failed\",\"image.notFound\",1]\n[\"-:2\",\"ready\",null,null]\n"; got.code != 1 || strings.Join(strings.Fields(got.out), "") != strings.Join(strings.Fields(want), "") {
		t.Errorf("got %+v, want %s", got, want)
	}
}

func TestBatchInputs(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args []string
		in   string
		code int
		want string
	}{
		"none":                {nil, "", 2, "an argument is missing"},
		"no file":             {[]string{"missing.yml"}, "", 1, "reading the input: stat missing.yml"},
		"empty input":         {[]string{"-"}, " ", 1, "reading -: it is empty"},
		"no such environment": {[]string{"-"}, "envs/missing.yml", 1, "reading an environment file: open envs/missing.yml"},
		"dry run and lock":    {[]string{"-", "--dry-run", "--lock", "x"}, "{}", 2, "--dry-run builds nothing that --lock could record"},
		"a lock of others":    {[]string{"-", "--lock", "batch_test.go"}, "{}", 1, "it is not a lock file of slipway batch"},
	} {
		if got := slipwayWith(t.Context(), tc.in, map[string]string{"SLIPWAY_SERVER": "http://127.0.0.1:1"}, append([]string{"batch"}, tc.args...)...); got.code != tc.code || !strings.Contains(got.errs, tc.want) {
			t.Errorf("%s: %+v, want %q", name, got, tc.want)
		}
	}
	if _, err := os.Stat("slipway.lock"); err == nil {
		t.Error("a run without a container wrote a lock file")
	}
}
