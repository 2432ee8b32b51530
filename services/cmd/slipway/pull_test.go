package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// pulled runs `slipway pull` against a server and returns its output.
func pulled(t *testing.T, url, file string) (string, error) {
	t.Helper()
	var said bytes.Buffer
	root := command(func(string) string { return "" })
	root.SetErr(&said)
	root.SetOut(&said)
	root.SetArgs([]string{"pull", "abc", "--sif", file, "--server", url})
	_, err := root.ExecuteContextC(t.Context())
	return said.String(), err
}

func TestPullResumesAfterInterruption(t *testing.T) {
	t.Parallel()
	content := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	sum := sha256.Sum256(content)
	var breaks, ranges atomic.Int32
	breaks.Store(2)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1alpha2/container/abc/status" {
			_, _ = w.Write([]byte(`{"id":"abc","status":"DONE","succeeded":true}`))
			return
		}
		if r.URL.Path != "/v1alpha2/container/abc/sif" {
			t.Errorf("%s was asked for", r.URL.Path)
		}
		if r.Header.Get("Range") != "" {
			ranges.Add(1)
		}
		w.Header().Set("Etag", `"sha256:`+hex.EncodeToString(sum[:])+`"`)
		if r.Method == http.MethodGet && breaks.Add(-1) >= 0 {
			w = &half{ResponseWriter: w, left: 300_000}
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "x.sif")
	said, err := pulled(t, server.URL, file)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, content) || ranges.Load() != 2 || !strings.Contains(said, " of ") {
		t.Errorf("%d bytes came with %d ranges, %v\n%s", len(got), ranges.Load(), err, said)
	}
	if parts, _ := filepath.Glob(file + ".*"); len(parts) > 0 {
		t.Errorf("it left %q", parts)
	}
	// The partial file of an earlier run is used.
	part := file + "." + hex.EncodeToString(sum[:])[:12] + ".part"
	if err := os.WriteFile(part, content[:1000], 0o600); err != nil {
		t.Fatal(err)
	}
	ranges.Store(0)
	if _, err := pulled(t, server.URL, file); err != nil || ranges.Load() != 1 {
		t.Errorf("going on with a part: %v, %d ranges", err, ranges.Load())
	}
	// A partial file with other content is detected.
	if err := os.WriteFile(part, bytes.Repeat([]byte{'x'}, 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := pulled(t, server.URL, file); err == nil || !strings.Contains(err.Error(), "digest") {
		t.Errorf("wrong bytes: %v", err)
	}
}

// half is a response whose connection breaks.
type half struct {
	http.ResponseWriter
	left int
}

func (h *half) Write(p []byte) (int, error) {
	if h.left -= len(p); h.left < 0 {
		panic(http.ErrAbortHandler)
	}
	return h.ResponseWriter.Write(p)
}

func TestPullReportsReason(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"message":"This request has made no Singularity image"}`))
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "x.sif")
	if _, err := pulled(t, server.URL, file); err == nil || !strings.Contains(err.Error(), "no Singularity image") {
		t.Errorf("it says %v", err)
	}
	if left, _ := filepath.Glob(file + "*"); len(left) > 0 {
		t.Errorf("it left %q", left)
	}
}

// TestPullWaits shows the log of a running build, and then downloads the file.
func TestPullWaits(t *testing.T) {
	t.Parallel()
	sum := sha256.Sum256([]byte("sif"))
	var asked, files atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/status") && asked.Add(1) == 1:
			_, _ = w.Write([]byte(`{"id":"abc","status":"BUILDING","buildId":"beef_1","targetImage":"oras://h/wt/abc/b:1"}`))
		case strings.HasSuffix(r.URL.Path, "/status"):
			_, _ = w.Write([]byte(`{"id":"abc","status":"DONE","succeeded":true,"buildId":"beef_1"}`))
		case r.URL.Path == "/v1alpha1/builds/beef_1/events":
			if files.Load() > 0 {
				t.Error("the file was asked for before it was there")
			}
			sse(w, 1, 2, success)
		default:
			files.Add(1)
			w.Header().Set("Etag", `"sha256:`+hex.EncodeToString(sum[:])+`"`)
			http.ServeContent(w, r, "", time.Time{}, strings.NewReader("sif"))
		}
	}))
	t.Cleanup(server.Close)
	said, err := pulled(t, server.URL, filepath.Join(t.TempDir(), "x.sif"))
	if err != nil || !strings.Contains(said, "line 1\nline 2\n") {
		t.Errorf("it says %q, %v", said, err)
	}
}
