package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"slipway.dev/services/internal/testkit"
)

// pipe returns the path of a pipe that the text can be read from once, in several parts.
func pipe(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	must(t, syscall.Mkfifo(path, 0o600))
	done := make(chan error, 1)
	go func() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			done <- err
			return
		}
		_, err = f.WriteString(text[:9])
		_, rest := f.WriteString(text[9:])
		done <- errors.Join(err, rest, f.Close())
	}()
	t.Cleanup(func() {
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return path
}

// TestBundlePipe checks that inputs are read once: all of a pipe is used, and a lock file can be one.
func TestBundlePipe(t *testing.T) {
	t.Parallel()
	up, url := testkit.NewRegistry(t, testkit.Open), serve(t, direct)
	image := testkit.Image(t, "amd64", true)
	one, two := up.Push(t, "lab/one:1", image), up.Push(t, "lab/two:2", image)
	in := fmt.Sprintf(`{"containerImage":"%s"}{"containerImage":"%s"}`, one, two)
	lock := fmt.Sprintf("{\n  \"version\": 1, \"containers\": [{\"name\":\"a\",\"image\":\"%s\",\"digest\":\"%s\"}], \"locks\": {}}", one, digestOf(t, image))
	for name, tc := range map[string]struct {
		in, input, want string
	}{
		"a pipe":                   {"", pipe(t, in), "2 of 2 images"},
		"a lock in a pipe":         {"", pipe(t, lock), "1 of 1 images"},
		"a lock in standard input": {lock, "-", "1 of 1 images"},
	} {
		got := slipwayWith(t.Context(), tc.in, nil, "bundle", tc.input, "--server", url, "--lock", "", "--to", filepath.Join(t.TempDir(), "bundle"))
		if got.code != 0 || !strings.Contains(got.errs, tc.want) {
			t.Errorf("%s: %+v, want %q", name, got, tc.want)
		}
	}
}

// TestBundleLockDigest checks that an image of packages is compared with the one that the lock file
// records, without a look at the build.
func TestBundleLockDigest(t *testing.T) {
	t.Parallel()
	up, image := testkit.NewRegistry(t, testkit.Open), testkit.Image(t, "amd64", true)
	built := up.Push(t, "builds:e", image)
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/v1alpha2/containers":
			fmt.Fprintf(w, `{"index":0,"response":{"requestId":"r","containerToken":"t","targetImage":"%s","containerImage":"%s","buildId":"b_1","succeeded":true}}`+"\n", built, built)
		case strings.HasSuffix(r.URL.Path, "/lock"):
			_, _ = io.WriteString(w, batchLock)
		default:
			t.Errorf("called %s", r.URL.Path)
		}
	})
	host, environment := strings.TrimPrefix(url, "http://"), filepath.Join(t.TempDir(), "a.yml")
	must(t, os.WriteFile(environment, []byte("dependencies: [bwa]\n"), 0o600))
	for name, tc := range map[string]struct {
		digest string
		code   int
		want   string
	}{
		"the same image": {digestOf(t, image), 0, "1 of 1 images"},
		"another image":  {"sha256:" + strings.Repeat("1", 64), 1, "a: the image is " + digestOf(t, image) + ", and the lock file has sha256:111"},
	} {
		sum := sha256.Sum256([]byte(batchLock))
		raw, err := json.Marshal(map[string]any{
			"version":    1,
			"containers": []any{map[string]any{"name": "a", "image": host + "/builds:e", "digest": tc.digest, "lock": "sha256:" + hex.EncodeToString(sum[:])}},
			"locks":      map[string]any{"sha256:" + hex.EncodeToString(sum[:]): batchLock},
		})
		must(t, err)
		// encoding/json sorts the keys of maps.
		in := `{"version":1,` + strings.Replace(strings.TrimPrefix(string(raw), "{"), `,"version":1`, "", 1)
		folder := filepath.Join(t.TempDir(), "bundle")
		got := slipwayWith(t.Context(), in, nil, "bundle", "-", "--server", url, "--lock", "", "--to", folder)
		if got.code != tc.code || !strings.Contains(got.errs, tc.want) {
			t.Errorf("%s: %+v, want %q", name, got, tc.want)
		}
	}
	if got := slipway(t.Context(), nil, "bundle", environment, "--server", url, "--lock", "", "--to", filepath.Join(t.TempDir(), "bundle")); got.code != 0 {
		t.Errorf("without a lock file: %+v", got)
	}
}

// TestBundleLockProcesses checks that a lock file keeps which names are processes of Nextflow.
func TestBundleLockProcesses(t *testing.T) {
	t.Parallel()
	b := newBundled(t)
	folder, d := t.TempDir(), digestOf(t, b.index)
	lock, config := filepath.Join(folder, "slipway.lock"), filepath.Join(folder, "mirror.config")
	describing := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1alpha2/containers" {
			direct(w, r)
			return
		}
		fmt.Fprintf(w, `{"digests":["%s"]}`, d)
	})
	in := `{"processes":[{"name":"MAIN:BOTH","container":"` + b.names[2] + `"}]}`
	if got := slipwayWith(t.Context(), in, nil, "batch", "-", "--server", describing, "--lock", lock, "--await"); got.code != 0 {
		t.Fatalf("batch: %+v", got)
	}
	// The first bundle is made of the output of Nextflow, and its selectors stay in the second.
	for _, input := range []string{"-", lock} {
		if got := b.bundle(t, in, input); got.code != 0 {
			t.Fatalf("%s: %+v", input, got)
		}
		to := testkit.NewRegistry(t, testkit.Open)
		got := slipway(t.Context(), nil, "bundle", "load", b.folder, "--to", to.Host+"/mirror", "--nextflow-config", config)
		if raw, err := os.ReadFile(config); got.code != 0 || err != nil || !strings.Contains(string(raw), "withName: 'MAIN:BOTH' { container = '"+to.Host+"/mirror/lab/both:v1' }") {
			t.Errorf("%s: %+v, and the configuration is %s, %v", input, got, raw, err)
		}
	}
}
