package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	specs "github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/testkit"
)

// A bigBlob is a blob of any size that is not in memory. Its content depends on its seed.
type bigBlob struct{ seed, size int64 }

// noise is the content of each part of a blob, after the seed and the number of the part.
var noise = func() (b [1 << 20]byte) {
	_, _ = rand.NewChaCha8([32]byte{}).Read(b[:])
	return b
}()

// ReadAt implements io.ReaderAt.
func (b bigBlob) ReadAt(p []byte, at int64) (n int, err error) {
	for n < len(p) && at < b.size {
		head := fmt.Appendf(nil, "%020d%020d", b.seed, at/int64(len(noise)))
		part := noise[at%int64(len(noise)):]
		if in := at % int64(len(noise)); in < int64(len(head)) {
			part = head[in:]
		}
		m := copy(p[n:min(int64(len(p)), int64(n)+b.size-at)], part)
		n, at = n+m, at+int64(m)
	}
	if n < len(p) {
		err = io.EOF
	}
	return n, err
}

func (b bigBlob) reader() *io.SectionReader { return io.NewSectionReader(b, 0, b.size) }

func (b bigBlob) descriptor(t testing.TB) ocispec.Descriptor {
	t.Helper()
	d, err := digest.FromReader(b.reader())
	if err != nil {
		t.Fatal(err)
	}
	return ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: d, Size: b.size}
}

// startDistribution runs the registry of the module services/tools on a folder.
func startDistribution(t testing.TB) (host string) {
	t.Helper()
	if err := buildTools(); err != nil {
		t.Fatal(err)
	}
	dir, host := t.TempDir(), "127.0.0.1:"+testkit.FreePort(t)
	config := filepath.Join(dir, "config.yml")
	text := fmt.Sprintf("version: 0.1\nlog: {level: error, accesslog: {disabled: true}}\nstorage: {filesystem: {rootdirectory: %s}}\nhttp: {addr: %q}\n", dir, host)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(binaries, "registry"), "serve", config)
	cmd.Env = append(os.Environ(), "OTEL_TRACES_EXPORTER=none")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	testkit.Until(t, "the registry", func() error {
		resp, err := http.Get("http://" + host + "/v2/")
		if err != nil {
			return err
		}
		return resp.Body.Close()
	})
	return host
}

// A largeImage is a registry with one image, whose layers are not in memory.
type largeImage struct {
	blobs     map[string]bigBlob
	manifests map[string]ocispec.Descriptor // by tag and digest
	referrers map[string][]ocispec.Descriptor
	total     int64        // bytes of the blobs
	sent      atomic.Int64 // bytes of blobs that were sent
	// reached is called with the value of sent.
	reached func(sent int64)
}

// newLargeImage makes an index of two platforms, each with layers of a size, and a signature.
func newLargeImage(t testing.TB, layers int, size int64) (i *largeImage, signature string) {
	t.Helper()
	i = &largeImage{blobs: map[string]bigBlob{}, manifests: map[string]ocispec.Descriptor{}, referrers: map[string][]ocispec.Descriptor{}}
	index := ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex}
	for n, arch := range []string{"amd64", "arm64"} {
		m := ocispec.Manifest{Versioned: index.Versioned, MediaType: ocispec.MediaTypeImageManifest, Config: i.blob(t, bigBlob{int64(100 + n), 1000})}
		m.Config.MediaType = ocispec.MediaTypeImageConfig
		for l := range layers {
			m.Layers = append(m.Layers, i.blob(t, bigBlob{int64(layers*n + l), size}))
		}
		d := i.manifest(t, m.MediaType, m)
		d.Platform, d.Data = &ocispec.Platform{OS: "linux", Architecture: arch}, nil
		index.Manifests = append(index.Manifests, d)
	}
	root := i.manifest(t, index.MediaType, index)
	i.manifests["v1"] = root
	root.Data = nil
	signed := ocispec.Manifest{
		Versioned: index.Versioned, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: "application/vnd.test.signature", Subject: &root,
		Config: i.blob(t, bigBlob{200, 100}), Layers: []ocispec.Descriptor{i.blob(t, bigBlob{201, 100})},
	}
	d := i.manifest(t, signed.MediaType, signed)
	d.Data, d.ArtifactType = nil, signed.ArtifactType
	i.referrers[root.Digest.String()] = []ocispec.Descriptor{d}
	return i, d.Digest.String()
}

func (i *largeImage) blob(t testing.TB, b bigBlob) ocispec.Descriptor {
	t.Helper()
	d := b.descriptor(t)
	i.blobs[d.Digest.String()] = b
	i.total += b.size
	return d
}

func (i *largeImage) manifest(t testing.TB, mediaType string, value any) ocispec.Descriptor {
	t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	d := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(raw), Size: int64(len(raw)), Data: raw}
	i.manifests[d.Digest.String()] = d
	return d
}

// ServeHTTP implements http.Handler.
func (i *largeImage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	switch {
	case strings.Contains(r.URL.Path, "/referrers/"):
		w.Header().Set("Content-Type", ocispec.MediaTypeImageIndex)
		_ = json.NewEncoder(w).Encode(ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: i.referrers[name]})
	case strings.Contains(r.URL.Path, "/manifests/") && i.manifests[name].Size > 0:
		w.Header().Set("Content-Type", i.manifests[name].MediaType)
		w.Header().Set("Docker-Content-Digest", i.manifests[name].Digest.String())
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(i.manifests[name].Data))
	case strings.Contains(r.URL.Path, "/blobs/") && i.blobs[name].size > 0:
		w.Header().Set("Content-Type", "application/octet-stream")
		http.ServeContent(&countingWriter{w, func(n int) { i.reached(i.sent.Add(int64(n))) }}, r, "", time.Time{}, i.blobs[name].reader())
	case r.URL.Path != "/v2/":
		w.WriteHeader(http.StatusNotFound)
	}
}

// TestMirrorKilledThrice kills the server three times while it mirrors an image of two platforms
// with a signature. Each side of the copy may send or get at most 5 % more than the image's bytes.
func TestMirrorKilledThrice(t *testing.T) {
	t.Parallel()
	if !testkit.Real() {
		t.Skip("copies 1 GiB: SLIPWAY_TEST_REAL is not set")
	}
	registry := startDistribution(t)
	image, signature := newLargeImage(t, 4, 128<<20)
	total, kill, kills, received := image.total, make(chan struct{}), atomic.Int64{}, atomic.Int64{}
	image.reached = func(sent int64) {
		if n := kills.Load(); n < 3 && sent >= (n+1)*total/4 && kills.CompareAndSwap(n, n+1) {
			kill <- struct{}{}
		}
	}
	from := httptest.NewUnstartedServer(image)
	// Bytes in the buffers of the kernel count as sent when a connection ends: on a busy machine up to 4 MiB for each.
	from.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetWriteBuffer(64 << 10) // only the count depends on it
		}
		return ctx
	}
	from.Start()
	t.Cleanup(from.Close)
	source := strings.TrimPrefix(from.URL, "http://")
	target, err := url.Parse("http://" + registry)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	director := proxy.Director
	proxy.Director = func(r *http.Request) {
		host := r.Host
		director(r)
		r.Host = host
	}
	to := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = &countingBody{r.Body, &received}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(to.Close)
	host := strings.TrimPrefix(to.URL, "http://")

	p := oneProcess(t, common(t, []string{source, host}, nil))
	answer := p.order(mirrored(source+"/lab/large:v1", host+"/mirror"), "Authorization", "Bearer "+p.token)
	for n := range 3 {
		select {
		case <-kill:
		case <-time.After(5 * time.Minute):
			t.Fatalf("the source has sent %d of %d bytes before kill %d\n%s", image.sent.Load(), total, n+1, p.logOf(answer))
		}
		p.procs[0].kill()
		p.procs[0].start()
	}
	if s := p.finished(t, answer); s["succeeded"] != true {
		t.Fatalf("the mirror ended as %v\n%s", s, p.logOf(answer))
	}
	t.Logf("image %d MiB; the source sent %.3f ×, the target got %.3f ×", total>>20, float64(image.sent.Load())/float64(total), float64(received.Load())/float64(total))
	if most := total + total/20; image.sent.Load() > most || received.Load() > most {
		t.Errorf("the source sent %d bytes and the target got %d, want at most %d\n%s", image.sent.Load(), received.Load(), most, p.logOf(answer))
	}
	for name, b := range image.blobs {
		resp, err := http.Get("http://" + registry + "/v2/mirror/lab/large/blobs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.New()
		n, err := io.Copy(sum, resp.Body)
		_ = resp.Body.Close()
		if got := "sha256:" + hex.EncodeToString(sum.Sum(nil)); err != nil || got != name || n != b.size {
			t.Errorf("%s is %s of %d bytes at the target, %v", name, got, n, err)
		}
	}
	for _, ref := range []string{"v1", signature} {
		if r := request(t, http.MethodGet, "http://"+registry+"/v2/mirror/lab/large/manifests/"+ref, nil, "Accept", ocispec.MediaTypeImageIndex+", "+ocispec.MediaTypeImageManifest); r.status != http.StatusOK {
			t.Errorf("%s at the target: %d %s", ref, r.status, r.body)
		}
	}
}

// A countingWriter counts the bytes of a response's body.
type countingWriter struct {
	http.ResponseWriter
	count func(n int)
}

// Write implements io.Writer. A response has at most 64 MiB a second, like on a network.
func (w *countingWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.count(n)
	time.Sleep(time.Duration(n) * time.Second / (64 << 20))
	return n, err
}

// A countingBody counts the bytes of a request's body.
type countingBody struct {
	io.ReadCloser
	n *atomic.Int64
}

// Read implements io.Reader.
func (b *countingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.n.Add(int64(n))
	return n, err
}
