package main

import (
	"archive/tar"
	"bytes"
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

// TestBundleTarAgain checks what the same command does with a file: nothing if it has all images, and otherwise it
// replaces damaged blobs. The file keeps its mode, and a link to it stays.
func TestBundleTarAgain(t *testing.T) {
	t.Parallel()
	b := newBundled(t)
	real := filepath.Join(t.TempDir(), "real.tar")
	b.folder = filepath.Join(t.TempDir(), "link.tar")
	must(t, os.WriteFile(real, nil, 0o600))
	must(t, os.Symlink(real, b.folder))
	must(t, os.Remove(real))
	if got := b.bundle(t, b.inspected(), "-"); got.code != 1 || !strings.Contains(got.errs, "is a link to a file that does not exist") {
		t.Errorf("a link to nothing: %+v", got)
	}
	link := b.folder
	b.folder = real
	if got := b.bundle(t, b.inspected(), "-"); got.code != 0 || !strings.Contains(got.errs, "Writing "+real) {
		t.Fatalf("got %+v", got)
	}
	must(t, os.Chmod(real, 0o640))
	before, err := os.ReadFile(real)
	must(t, err)
	b.folder = link
	if got := b.bundle(t, b.inspected(), "-"); got.code != 0 || strings.Contains(got.errs, "Writing") {
		t.Errorf("the same again: %+v", got)
	}
	if after, err := os.ReadFile(real); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file has changed, %v", err)
	}
	damageTar(t, real)
	if got := slipway(t.Context(), nil, "bundle", "list", link, "--verify"); got.code != 1 {
		t.Errorf("a damaged file: %+v", got)
	}
	b.up.Requests()
	if got := b.bundle(t, b.inspected(), "-"); got.code != 0 || len(blobGets(b.up.Requests())) != 1 {
		t.Errorf("the damaged file again: %+v", got)
	}
	if got := slipway(t.Context(), nil, "bundle", "list", link, "--verify"); got.code != 0 {
		t.Errorf("the repaired file: %+v", got)
	}
	if after, err := os.ReadFile(real); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the repaired file is another, %v", err)
	}
	info, err := os.Lstat(link)
	must(t, err)
	if now, err := os.Stat(real); err != nil || now.Mode() != 0o640 || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the file is %v, the link %v, %v", now, info, err)
	}
	// A folder of an interrupted run is used for the same file only.
	partial := real + ".partial"
	must(t, os.MkdirAll(filepath.Join(partial, "blobs", "sha256"), 0o700))
	for _, name := range []string{"index.json", "oci-layout"} {
		must(t, os.WriteFile(filepath.Join(partial, name), []byte(`{"imageLayoutVersion":"1.0.0"}`), 0o600))
	}
	if got := b.bundle(t, b.inspected(), "-"); got.code != 1 || !strings.Contains(got.errs, "was replaced since a run was interrupted") {
		t.Errorf("another file: %+v", got)
	}
	must(t, os.RemoveAll(partial))
	must(t, os.Symlink(t.TempDir(), partial))
	if got := b.bundle(t, b.inspected(), "-"); got.code != 1 || !strings.Contains(got.errs, "is not a folder; delete it") {
		t.Errorf("a link: %+v", got)
	}
	packed := filepath.Join(t.TempDir(), "x.tar.gz")
	must(t, os.WriteFile(packed, []byte("\x1f\x8b0123456789"), 0o600))
	if got := b.bundle(t, b.inspected(), "-", "--have", packed); got.code != 1 || !strings.Contains(got.errs, "decompress it with gunzip") {
		t.Errorf("a compressed file: %+v", got)
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
		offset, err := f.Seek(0, io.SeekCurrent)
		must(t, err)
		first := make([]byte, 1)
		if _, err := r.Read(first); (err == nil || errors.Is(err, io.EOF)) && h.Size > size && first[0] != '{' { // a layer
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
	if got := b.bundle(t, b.inspected(), "-"); got.code != 1 || !strings.Contains(got.errs, "the file exists, and cannot be extended: ") {
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
