package main

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"slipway.dev/services/internal/testkit"
)

// tarNames returns the names of the files of a tar.
func tarNames(t *testing.T, path string) (names []string) {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		must(t, err)
		if h.Mode != 0o644 || h.Uid != 0 || h.ModTime.Unix() != 0 {
			t.Errorf("%s has the header %+v", h.Name, h)
		}
		names = append(names, h.Name)
	}
}

// TestBundleTar writes a bundle as one file, which is verified, served, pushed, extended and left out
// where it is.
func TestBundleTar(t *testing.T) {
	t.Parallel()
	b := newBundled(t)
	b.folder = filepath.Join(t.TempDir(), "new", "pipeline.tar")
	var seen atomic.Int32
	b.up.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/blobs/") || seen.Add(1) < 4 {
			return false
		}
		w.WriteHeader(http.StatusForbidden)
		return true
	})
	if got := b.bundle(t, b.inspected(), "-"); got.code != 1 {
		t.Errorf("got %+v", got)
	}
	b.up.Intercept(nil)
	b.up.Requests()
	if got := b.bundle(t, b.inspected(), "-"); got.code != 0 || !strings.Contains(got.errs, "existed") {
		t.Fatalf("got %+v", got)
	}
	names := tarNames(t, b.folder)
	if entries, err := os.ReadDir(filepath.Dir(b.folder)); err != nil || len(entries) != 1 {
		t.Errorf("the folder has %v, %v", entries, err)
	}
	if len(names) < 10 || names[0] != "oci-layout" || names[1] != "index.json" || !slices.IsSorted(names[2:]) || slices.Contains(names, "") {
		t.Errorf("the file has %q", names)
	}
	if _, err := exec.LookPath("skopeo"); err == nil {
		if out, err := exec.CommandContext(t.Context(), "skopeo", "inspect", "--raw", "oci-archive:"+b.folder+":"+b.names[2]).CombinedOutput(); err != nil {
			t.Errorf("skopeo: %v\n%s", err, out)
		}
	}
	b.names = append(b.names, b.up.Push(t, "lab/three:3", sharing(t, testkit.Image(t, "amd64", true))))
	b.up.Requests()
	if got := b.bundle(t, "", b.names[3]); got.code != 0 || len(blobGets(b.up.Requests())) != 4 {
		t.Errorf("another image: %+v", got)
	}
	if more := tarNames(t, b.folder); len(more) != len(names)+5 { // four blobs and a manifest
		t.Errorf("the file has %d files after %d", len(more), len(names))
	}
	list := slipway(t.Context(), nil, "bundle", "list", b.folder, "--verify")
	if list.code != 0 || !strings.Contains(list.out, b.names[3]) || !strings.Contains(list.out, "MAIN:STEP_2") || !strings.Contains(list.errs, "Verified 7 manifests") {
		t.Errorf("list: %+v", list)
	}
	whole := b.folder
	b.folder = filepath.Join(t.TempDir(), "update.tar")
	b.names = append(b.names, b.up.Push(t, "lab/four:4", sharing(t, testkit.Image(t, "amd64", true))))
	b.up.Requests()
	if got := b.bundle(t, b.inspected(), "-", "--have", whole); got.code != 0 || len(blobGets(b.up.Requests())) != 4 {
		t.Errorf("--have: %+v", got)
	}
	b.up.Empty(t)
	host := served(t, whole, b.folder)
	if got := digestOf(t, pulledIndex(t, host+"/lab/both:v1")); got != digestOf(t, b.index) {
		t.Errorf("the index has the digest %s", got)
	}
	pulledDigest(t, host+"/lab/four:4")
	to := testkit.NewRegistry(t, testkit.Open)
	if got := slipway(t.Context(), nil, "bundle", "load", whole, b.folder, "--to", to.Host); got.code != 0 || strings.Count(got.out, "\n") != 5 {
		t.Errorf("load: %+v", got)
	}
	damageTar(t, whole)
	if got := slipway(t.Context(), nil, "bundle", "list", whole, "--verify"); got.code != 1 || !strings.Contains(got.errs, "was changed") {
		t.Errorf("a damaged file: %+v", got)
	}
}

// damageTar changes the last byte of the content of the largest file of a tar.
func damageTar(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	at, size := int64(0), int64(0)
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		if offset, err := f.Seek(0, io.SeekCurrent); err == nil && h.Size > size && h.Name != "index.json" && strings.HasPrefix(h.Name, "blobs/") {
			at, size = offset, h.Size
		}
	}
	last := make([]byte, 1)
	_, err = f.ReadAt(last, at+size-1)
	must(t, err)
	_, err = f.WriteAt([]byte{last[0] ^ 1}, at+size-1)
	must(t, err)
}

// TestBundleTarOfOthers checks that a file that is no bundle stays as it is.
func TestBundleTarOfOthers(t *testing.T) {
	t.Parallel()
	b := newBundled(t)
	b.folder = filepath.Join(t.TempDir(), "data.tar")
	must(t, os.WriteFile(b.folder, []byte("data"), 0o600))
	if got := b.bundle(t, b.inspected(), "-"); got.code != 1 || !strings.Contains(got.errs, "exists and is not a bundle; give a new name") {
		t.Errorf("got %+v", got)
	}
	if raw, err := os.ReadFile(b.folder); err != nil || string(raw) != "data" {
		t.Errorf("the file is %q, %v", raw, err)
	}
	b.folder = filepath.Join(t.TempDir(), "none.tar")
	if got := b.bundle(t, "", filepath.Join(t.TempDir(), "no-such.yml")); got.code == 0 {
		t.Errorf("got %+v", got)
	}
	if _, err := os.Stat(b.folder + ".partial"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder: %v", err)
	}
}
