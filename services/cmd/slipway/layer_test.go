package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// sentLayer is a layer as it stands in a request.
type sentLayer struct{ Location, GzipDigest, GzipSize, TarDigest string }

// request asks for an image with layers, and answers what was sent of them.
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

// grow makes the same tree wherever it is told to, with entries of its own
// order, times and number of hard links.
func grow(t *testing.T, dir string, reverse bool, when time.Time) {
	t.Helper()
	steps := []func() error{
		func() error { return os.WriteFile(filepath.Join(dir, "a.txt"), []byte("alpha"), 0o600) },
		func() error { return os.WriteFile(filepath.Join(dir, "a", "run"), []byte("#!/bin/sh\n"), 0o600) },
		func() error { return os.WriteFile(filepath.Join(dir, "a", strings.Repeat("l", 120)), nil, 0o600) },
		func() error { return os.Symlink("../nowhere/here", filepath.Join(dir, "a", "link")) },
		func() error { return os.Mkdir(filepath.Join(dir, "b"), 0o700) },
	}
	must(t, os.Mkdir(filepath.Join(dir, "a"), 0o700))
	for i := range steps {
		if reverse {
			i = len(steps) - 1 - i
		}
		must(t, steps[i]())
	}
	if reverse {
		must(t, os.WriteFile(filepath.Join(dir, "c"), []byte("alpha"), 0o600))
	} else {
		must(t, os.Link(filepath.Join(dir, "a.txt"), filepath.Join(dir, "c")))
	}
	for name, mode := range map[string]os.FileMode{"a.txt": 0o640, "c": 0o640, "a/run": 0o755 | os.ModeSetuid, "b": 0o777 | os.ModeSticky, "a": 0o750} {
		must(t, os.Chmod(filepath.Join(dir, name), mode))
		must(t, os.Chtimes(filepath.Join(dir, name), when, when))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestDirectoryLayer(t *testing.T) {
	t.Parallel()
	one, two := t.TempDir(), filepath.Join(t.TempDir(), "elsewhere")
	must(t, os.Mkdir(two, 0o711))
	grow(t, one, false, time.Now())
	grow(t, two, true, time.Date(2001, 2, 3, 4, 5, 6, 7, time.UTC))
	alias := filepath.Join(t.TempDir(), "alias")
	must(t, os.Symlink(two, alias))
	layers := request(t, one, two, alias)
	if layers[0] != layers[1] || layers[1] != layers[2] {
		t.Errorf("the same tree made different layers: %+v", layers)
	}
	plain := unpack(t, layers[0])
	want := []string{
		"5 a/ 750", "2 a/link 777 ../nowhere/here", "0 a/" + strings.Repeat("l", 120) + " 600", "0 a/run 4755 #!/bin/sh\n",
		"0 a.txt 640 alpha", "5 b/ 1777", "0 c 640 alpha",
	}
	if got := entries(t, plain); !reflect.DeepEqual(got, want) {
		t.Errorf("got entries\n%q\nwant\n%q", got, want)
	}
}

// unpack checks a layer against its own digests, and answers its tar.
func unpack(t *testing.T, l sentLayer) []byte {
	t.Helper()
	packed, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(l.Location, "data:"))
	must(t, err)
	zr, err := gzip.NewReader(bytes.NewReader(packed))
	must(t, err)
	if !reflect.DeepEqual(zr.Header, gzip.Header{OS: 255}) {
		t.Errorf("gzip header %+v tells where it was made", zr.Header)
	}
	plain, err := io.ReadAll(zr)
	must(t, err)
	want := sentLayer{l.Location, sha(packed), strconv.Itoa(len(packed)), sha(plain)}
	if l != want {
		t.Errorf("sent %+v, want %+v", l, want)
	}
	return plain
}

func sha(b []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(b)) }

// entries lists a tar: kind, name, mode, and content or target.
func entries(t *testing.T, plain []byte) []string {
	t.Helper()
	var list []string
	for tr := tar.NewReader(bytes.NewReader(plain)); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return list
		}
		must(t, err)
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.Gname != "" || !h.ModTime.Equal(time.Unix(0, 0)) {
			t.Errorf("%s has an owner or a time: %+v", h.Name, h)
		}
		content, err := io.ReadAll(tr)
		must(t, err)
		list = append(list, strings.TrimSpace(fmt.Sprintf("%c %s %o %s", h.Typeflag, h.Name, h.Mode, h.Linkname+string(content))))
	}
}

// tarball makes a gzip'd tar; its content need not be one to be hashed.
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
	plain := make([]byte, maxContent+1) // nothing limits what is hosted
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
		w.Header().Set("Content-Encoding", "gzip") // as some servers say of .gz
		_, _ = w.Write(packed)
	}) + "/moved.tar.gz"
	want := sentLayer{url, sha(packed), strconv.Itoa(len(packed)), sha(plain)}
	if got := request(t, url); len(got) != 1 || got[0] != want {
		t.Errorf("sent %+v, want %+v", got, want)
	}
}

// TestLayerLimit sends the largest layer that fits, and refuses one that is a
// byte longer.
func TestLayerLimit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	largest := stored(t, int(maxContent))
	fits, long := filepath.Join(dir, "fits.tar.gz"), filepath.Join(dir, "long.tar.gz")
	must(t, os.WriteFile(fits, largest, 0o600))
	must(t, os.WriteFile(long, stored(t, int(maxContent)+1), 0o600))
	if n := len(request(t, fits)[0].Location); n > 14_000_000 {
		t.Errorf("sent a location of %d characters", n)
	}
	got := slipway(t.Context(), nil, "image", "ubuntu", "--layer", long)
	want := "slipway: preparing the layer " + long + ": it is 13999996 characters long as base64 (10.5 MB compressed), and 13999995 is the most; " +
		"host it as a tar.gz file and give its http(s) URL instead\n"
	if got.code != 1 || got.errs != want {
		t.Errorf("got %+v, want %q", got, want)
	}
}

// stored makes a gzip file of exactly n bytes: a comment fills it up.
func stored(t *testing.T, n int) []byte {
	t.Helper()
	content := make([]byte, n-n/100)
	_, _ = rand.Read(content)
	short := commented(t, content, "")
	return commented(t, content, strings.Repeat("x", n-len(short)-1)) // and its final NUL
}

func commented(t *testing.T, content []byte, comment string) []byte {
	t.Helper()
	var b bytes.Buffer
	zw, err := gzip.NewWriterLevel(&b, gzip.NoCompression)
	must(t, err)
	zw.Comment = comment
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
	odd := filepath.Join(dir, "odd")
	must(t, os.Mkdir(odd, 0o700))
	must(t, syscall.Mkfifo(filepath.Join(odd, "pipe"), 0o600))
	missing := serve(t, http.NotFound)
	for source, want := range map[string]string{
		dir + "/none":      "open " + dir + "/none: no such file or directory",
		plain:              "reading it as a tar.gz file: gzip: invalid header",
		cut:                "reading it as a tar.gz file: unexpected EOF",
		odd:                "packing it: pipe is a socket, pipe or device, which no layer can hold; remove it",
		missing:            "downloading it: the server answered 404 Not Found",
		"http://[":         "reading its URL: ",
		"http://a.invalid": "downloading it: ",
	} {
		got := slipway(t.Context(), nil, "image", "ubuntu", "--layer", source)
		if want := "slipway: preparing the layer " + source + ": " + want; got.code != 1 || !strings.HasPrefix(got.errs, want) {
			t.Errorf("got %+v, want %q", got, want)
		}
	}
}

func TestPackingIsInterrupted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := slipway(ctx, nil, "image", "ubuntu", "--layer", dir); got.code != 1 || !strings.Contains(got.errs, "context canceled") {
		t.Errorf("got %+v", got)
	}
}
