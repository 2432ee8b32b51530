package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/olareg/olareg"
	"github.com/olareg/olareg/config"

	"slipway.dev/services/internal/testkit"
)

// entryScript is the entrypoint that a request adds. Its output shows that it ran, and its
// environment.
const (
	entryScript = "#!/bin/sh\necho \"entrypoint: GREETING=$GREETING, added.txt=$(cat /added.txt)\"\nexec \"$@\"\n"
	printed     = "entrypoint: GREETING=hello, added.txt=of the request\ncommand\n"
)

// TestClients pulls augmented images with all supported clients, and runs them with the
// container engines among them.
func TestClients(t *testing.T) {
	needClients(t)
	basic, bearer := testkit.NewRegistry(t, testkit.Basic), testkit.NewRegistry(t, testkit.Bearer)
	index := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: testkit.Image(t, "arm64", true), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "arm64"}}},
		mutate.IndexAddendum{Add: busybox(t, true), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}}})
	images := map[string]string{
		"debian":  bearer.Push(t, "base/debian:bookworm", debian(t)),
		"busybox": basic.Push(t, "base/busybox:1", busybox(t, true)),
		"index":   bearer.Push(t, "base/index:1", index),
		"docker":  basic.Push(t, "base/docker:1", busybox(t, false)),
	}
	login := testkit.User + ":" + testkit.Password
	auth := settings{"registry_auth_file": dockerConfig(t, map[string]string{basic.Host: login, bearer.Host: login})}
	running := engines(t)
	eachShape(t, []string{basic.Host, bearer.Host}, auth, func(t *testing.T, p *program) {
		for kind, image := range images {
			t.Run(kind, func(t *testing.T) {
				pullWithEach(t, running, p.submit(map[string]any{"containerImage": image, "containerConfig": map[string]any{
					"env": []string{"GREETING=hello"}, "entrypoint": []string{"/entry.sh"},
					"layers": []any{dataLayer(t, "added.txt", "of the request"), dataLayer(t, "entry.sh", entryScript)},
				}}))
			})
		}
	})
}

// needClients skips the test without real servers, and fails it if the engines cannot run.
func needClients(t testing.TB) {
	t.Helper()
	if !testkit.Real() {
		t.Skip("needs real clients: SLIPWAY_TEST_REAL is not set")
	}
	if os.Getuid() != 0 {
		t.Fatal("engines need root")
	}
	if err := buildTools(); err != nil {
		t.Fatal(err)
	}
}

func pullWithEach(t *testing.T, running []engine, target string) {
	for _, c := range copiers() {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "image")
			output(t, t.TempDir(), c.args(target, dir)...)
			checkLayout(t, dir)
		})
	}
	for _, e := range running {
		t.Run(e.name, func(t *testing.T) {
			if got := e.run(t, target); got != printed {
				t.Errorf("the container printed %q, want %q", got, printed)
			}
		})
	}
}

// checkLayout checks the additions in an image that a client has written.
func checkLayout(t testing.TB, dir string) {
	t.Helper()
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	img := forAMD64(t, index)
	if img == nil {
		t.Fatal("there is no image for amd64")
	}
	cf, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(cf.Config.Env, "GREETING=hello") || !slices.Equal(cf.Config.Entrypoint, []string{"/entry.sh"}) {
		t.Errorf("variables %q and entrypoint %q", cf.Config.Env, cf.Config.Entrypoint)
	}
	layers, err := img.Layers()
	if err != nil || len(layers) != 3 {
		t.Fatalf("%d layers (%v); the base has 1, the request 2", len(layers), err)
	}
	for _, l := range layers {
		raw, path := content(t, l)
		if !strings.HasSuffix(path, sha(raw)) {
			t.Errorf("the content of %s has the digest %s", path, sha(raw))
		}
	}
	added, err := layers[1].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	if got := readTar(t, added); got["added.txt"] != "of the request" {
		t.Errorf("the added layer contains %q", got)
	}
}

// forAMD64 finds the amd64 image in an index or its nested indexes. skopeo omits platforms in
// nested indexes.
func forAMD64(t testing.TB, index v1.ImageIndex) v1.Image {
	t.Helper()
	children, err := partial.Manifests(index)
	if err != nil {
		t.Fatal(err)
	}
	for _, child := range children {
		switch child := child.(type) {
		case v1.ImageIndex:
			if img := forAMD64(t, child); img != nil {
				return img
			}
		case v1.Image:
			cf, err := child.ConfigFile()
			if err != nil {
				t.Fatal(err)
			}
			if cf.Architecture == "amd64" {
				return child
			}
		}
	}
	return nil
}

// debian returns a minimal Debian. Its tar is stored in the user's cache, since creating it is
// slow and needs a mirror.
func debian(t testing.TB) v1.Image {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(cache, "slipway-e2e", "bookworm-minbase.tar")
	if _, err := os.Stat(path); err != nil {
		bootstrap(t, path)
	}
	l, err := tarball.LayerFromFile(path, tarball.WithCompressionLevel(gzip.BestSpeed), tarball.WithCompressedCaching)
	if err != nil {
		t.Fatal(err)
	}
	return base(t, l, true)
}

func bootstrap(t testing.TB, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	part := path + ".part.tar" // an interrupted run leaves no incomplete file
	if out, err := exec.Command("mmdebstrap", "--variant=minbase", "--mode=root", "bookworm", part).CombinedOutput(); err != nil {
		t.Fatalf("mmdebstrap: %v\n%s", err, tail(string(out), 4000))
	}
	if err := os.Rename(part, path); err != nil {
		t.Fatal(err)
	}
}

// busybox returns an image with a shell and the commands that the entrypoint uses.
func busybox(t testing.TB, oci bool) v1.Image {
	t.Helper()
	program, err := os.ReadFile("/bin/busybox")
	if err != nil {
		t.Fatalf("%v: apt-get install busybox-static", err)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	_ = w.WriteHeader(&tar.Header{Name: "bin/", Typeflag: tar.TypeDir, Mode: 0o755})
	_ = w.WriteHeader(&tar.Header{Name: "bin/busybox", Mode: 0o755, Size: int64(len(program))})
	_, _ = w.Write(program)
	for _, applet := range []string{"sh", "cat", "echo"} {
		_ = w.WriteHeader(&tar.Header{Name: "bin/" + applet, Typeflag: tar.TypeSymlink, Linkname: "busybox", Mode: 0o777})
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	return base(t, l, oci)
}

// base returns an image with one layer for linux/amd64.
func base(t testing.TB, l v1.Layer, oci bool) v1.Image {
	t.Helper()
	manifest, document, content := types.DockerManifestSchema2, types.DockerConfigJSON, types.DockerLayer
	if oci {
		manifest, document, content = types.OCIManifestSchema1, types.OCIConfigJSON, types.OCILayer
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, manifest), document)
	img, err := mutate.Append(img, mutate.Addendum{Layer: l, MediaType: content, History: v1.History{CreatedBy: "e2e"}})
	if err != nil {
		t.Fatal(err)
	}
	cf, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	cf = cf.DeepCopy()
	cf.OS, cf.Architecture = "linux", "amd64"
	cf.Config = v1.Config{Cmd: []string{"echo", "command"}, Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}}
	if img, err = mutate.ConfigFile(img, cf); err != nil {
		t.Fatal(err)
	}
	return img
}

// TestClientsPullOneGigabyte limits the memory of the processes that forward a large blob.
func TestClientsPullOneGigabyte(t *testing.T) {
	needClients(t)
	big := newVast(t, 1<<30)
	up := registryOnDisk(t)
	img, err := mutate.AppendLayers(testkit.Image(t, "amd64", true), big)
	if err != nil {
		t.Fatal(err)
	}
	image := up + "/lib/big:1"
	ref, err := name.ParseReference(image, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, img); err != nil {
		t.Fatal(err)
	}
	eachShape(t, []string{up}, nil, func(t *testing.T, p *program) {
		dir := filepath.Join(t.TempDir(), "image")
		target := p.submit(map[string]any{"containerImage": image, "containerConfig": map[string]any{"env": []string{"A=b"}}})
		output(t, t.TempDir(), "crane", "pull", "--insecure", "--format", "oci", target, dir)
		blob, err := os.Open(filepath.Join(dir, "blobs", "sha256", big.digest.Hex))
		if err != nil {
			t.Fatal(err)
		}
		defer blob.Close()
		if got, n, err := v1.SHA256(blob); err != nil || got != big.digest || n != big.size {
			t.Errorf("the blob has the digest %s and %d bytes, %v; want %s", got, n, err, big.digest)
		}
		for _, proc := range p.procs {
			used := proc.peak()
			t.Logf("%s: %d MB at most", proc.name, used>>20)
			if used > proc.memoryBound() {
				t.Errorf("%s used %d MB", proc.name, used>>20)
			}
		}
	})
}

// memoryBound returns the memory limit of the process in bytes; the race detector needs several
// times as much.
func (p *process) memoryBound() int64 {
	if p.program() == instrumented() {
		return 1 << 30
	}
	return 256 << 20
}

// peak returns the peak memory use of the process in bytes.
func (p *process) peak() int64 {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	return peakOf(p.t, p.cmd.Process.Pid)
}

// processor returns the processor time of the process so far.
func (p *process) processor() time.Duration {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ") // the name may contain blanks
	var user, system int64                        // proc(5): utime and stime, in hundredths of a second
	fields := strings.Fields(rest)
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		p.t.Fatal(err)
	}
	return time.Duration(user+system) * 10 * time.Millisecond
}

func peakOf(t testing.TB, pid int) int64 {
	t.Helper()
	return memoryOf(t, pid, "VmHWM:")
}

// memoryOf returns a field of a process's status in bytes.
func memoryOf(t testing.TB, pid int, field string) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), field)
	var kB int64
	if _, err := fmt.Sscan(rest, &kB); err != nil {
		t.Fatalf("no %s in %s", field, status)
	}
	return kB << 10
}

// registryOnDisk is a registry for images that do not fit in memory.
func registryOnDisk(t testing.TB) (host string) {
	t.Helper()
	store := olareg.New(config.Config{Storage: config.ConfigStorage{StoreType: config.StoreDir, RootDir: t.TempDir()}})
	// The library is not safe for creating repositories concurrently, so writers are
	// serialized.
	var writing sync.RWMutex
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			writing.RLock()
			defer writing.RUnlock()
		} else {
			writing.Lock()
			defer writing.Unlock()
		}
		store.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		server.Close()
		_ = store.Close()
	})
	return strings.TrimPrefix(server.URL, "http://")
}

// vast is a layer of pseudo-random bytes that are generated while it is read.
type vast struct {
	size   int64
	digest v1.Hash
}

func newVast(t testing.TB, size int64) vast {
	t.Helper()
	v := vast{size: size}
	content, _ := v.Uncompressed()
	var err error
	if v.digest, _, err = v1.SHA256(content); err != nil {
		t.Fatal(err)
	}
	return v
}

func (v vast) Uncompressed() (io.ReadCloser, error) {
	return io.NopCloser(io.LimitReader(rand.NewChaCha8([32]byte{}), v.size)), nil
}
func (v vast) Compressed() (io.ReadCloser, error)  { return v.Uncompressed() }
func (v vast) Digest() (v1.Hash, error)            { return v.digest, nil }
func (v vast) DiffID() (v1.Hash, error)            { return v.digest, nil }
func (v vast) Size() (int64, error)                { return v.size, nil }
func (v vast) MediaType() (types.MediaType, error) { return types.OCIUncompressedLayer, nil }
