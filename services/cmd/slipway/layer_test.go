package main

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// sentLayer is a layer in a request.
type sentLayer struct{ Location, GzipDigest, GzipSize, TarDigest string }

// request requests an image with layers, and returns the layers that were sent.
func request(t *testing.T, sources ...string) []sentLayer {
	t.Helper()
	sent := make(chan []sentLayer, 1)
	args := []string{"image", "ubuntu:24.04", "--server", serve(t, func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			ContainerConfig struct{ Layers []sentLayer }
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Errorf("reading the body: %v", err)
		}
		sent <- body.ContainerConfig.Layers
		_, _ = io.WriteString(w, plainAnswer)
	})}
	for _, s := range sources {
		args = append(args, "--layer", s)
	}
	if got := slipway(t.Context(), map[string]string{"SLIPWAY_TOKEN": "secret"}, args...); got.code != 0 || got.out != plainName {
		t.Fatalf("got %+v", got)
	}
	return <-sent
}

// mostContent is the maximum size of a layer's content in a request, in bytes
// (gateway/contract/container-service.md#container-request).
const mostContent = (14_000_000 - len("data:")) / 4 * 3

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func sha(b []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(b)) }

// tarball returns gzipped content, which need not be a tar.
func tarball(t *testing.T, plain []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	zw := gzip.NewWriter(&b)
	_, err := zw.Write(plain)
	must(t, err)
	must(t, zw.Close())
	return b.Bytes()
}

func TestFileLayer(t *testing.T) {
	t.Parallel()
	plain := []byte("tar, so to speak")
	packed := tarball(t, plain)
	file := filepath.Join(t.TempDir(), "layer.tar.gz")
	must(t, os.WriteFile(file, packed, 0o600))
	want := sentLayer{"data:" + base64.StdEncoding.EncodeToString(packed), sha(packed), strconv.Itoa(len(packed)), sha(plain)}
	if got := request(t, file); len(got) != 1 || got[0] != want {
		t.Errorf("sent %+v, want %+v", got, want)
	}
}

func TestURLLayer(t *testing.T) {
	t.Parallel()
	plain := make([]byte, mostContent+1) // hosted layers have no size limit
	_, _ = rand.Read(plain)
	packed := tarball(t, plain)
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != "" {
			t.Errorf("another server got %q", got)
		}
		if r.URL.Path == "/moved.tar.gz" {
			http.Redirect(w, r, "/layer.tar.gz", http.StatusFound)
			return
		}
		w.Header().Set("Content-Encoding", "gzip") // as some servers do for .gz files
		_, _ = w.Write(packed)
	}) + "/moved.tar.gz"
	want := sentLayer{url, sha(packed), strconv.Itoa(len(packed)), sha(plain)}
	if got := request(t, url); len(got) != 1 || got[0] != want {
		t.Errorf("sent %+v, want %+v", got, want)
	}
}

// TestLayerLimit sends the largest layer that fits, and checks that one byte more is
// rejected.
func TestLayerLimit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	largest := stored(t, mostContent)
	fits, long := filepath.Join(dir, "fits.tar.gz"), filepath.Join(dir, "long.tar.gz")
	must(t, os.WriteFile(fits, largest, 0o600))
	must(t, os.WriteFile(long, stored(t, mostContent+1), 0o600))
	if n := len(request(t, fits)[0].Location); n > 14_000_000 {
		t.Errorf("sent a location of %d characters", n)
	}
	got := slipway(t.Context(), nil, "image", "ubuntu", "--layer", long)
	want := "slipway: preparing the layer " + long + ": it is 13999996 characters long as base64 (10.5 MB compressed), but the limit is 13999995; " +
		"host it as a tar.gz file and give its http(s) URL instead\n"
	if got.code != 1 || got.errs != want {
		t.Errorf("got %+v, want %q", got, want)
	}
}

// stored returns a gzip file of exactly n bytes, padded in its header.
func stored(t *testing.T, n int) []byte {
	t.Helper()
	content := make([]byte, n-10_000)
	short := withExtra(t, content, nil)
	return withExtra(t, content, make([]byte, n-len(short)-2)) // 2 bytes hold the length of extra
}

func withExtra(t *testing.T, content, extra []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	zw, err := gzip.NewWriterLevel(&b, gzip.NoCompression)
	must(t, err)
	zw.Extra = extra
	_, err = zw.Write(content)
	must(t, err)
	must(t, zw.Close())
	return b.Bytes()
}

func TestLayerErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plain, cut := filepath.Join(dir, "plain.tar"), filepath.Join(dir, "cut.tar.gz")
	must(t, os.WriteFile(plain, []byte("no gzip at all"), 0o600))
	must(t, os.WriteFile(cut, tarball(t, []byte("tar"))[:20], 0o600))
	missing := serve(t, http.NotFound)
	for source, want := range map[string]string{
		dir + "/none":        "open " + dir + "/none: no such file or directory",
		plain:                "reading it as a tar.gz file: gzip: invalid header",
		cut:                  "reading it as a tar.gz file: unexpected EOF",
		missing:              "downloading it: the server answered 404 Not Found",
		"http://[":           "reading its URL: ",
		"http://127.0.0.1:1": "downloading it: ",
	} {
		got := slipway(t.Context(), nil, "image", "ubuntu", "--layer", source)
		if want := "slipway: preparing the layer " + source + ": " + want; got.code != 1 || !strings.HasPrefix(got.errs, want) {
			t.Errorf("got %+v, want %q", got, want)
		}
	}
}
