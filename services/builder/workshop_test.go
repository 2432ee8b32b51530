package builder_test

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/opencontainers/go-digest"
	"github.com/prometheus/client_golang/prometheus"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	"slipway.dev/services/builder"
	"slipway.dev/services/builder/daemon"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/upstream"
)

// busybox is an image with a shell, of what this machine has.
func busybox(t testing.TB) v1.Image {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	add := func(h *tar.Header, content []byte) {
		h.Size, h.Mode = int64(len(content)), 0o755
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	content, err := os.ReadFile("/usr/bin/busybox")
	if err != nil {
		t.Skipf("this test needs busybox-static: %v", err)
	}
	add(&tar.Header{Name: "usr/bin/busybox", Typeflag: tar.TypeReg}, content)
	for _, name := range []string{"sh", "echo", "cat", "ls", "wget", "nc", "sleep", "dd", "sed", "false", "env", "head", "tail", "true", "ps", "grep", "printf"} {
		add(&tar.Header{Name: "bin/" + name, Typeflag: tar.TypeSymlink, Linkname: "/usr/bin/busybox"}, nil)
	}
	add(&tar.Header{Name: "tmp/", Typeflag: tar.TypeDir}, nil)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		t.Fatal(err)
	}
	cf, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	cf = cf.DeepCopy()
	cf.OS, cf.Architecture = "linux", "amd64"
	cf.Config.Env = []string{"PATH=/bin:/usr/bin"}
	if img, err = mutate.ConfigFile(img, cf); err != nil {
		t.Fatal(err)
	}
	return img
}

// printed is an Output that a test reads.
type printed struct {
	mu     sync.Mutex
	b      strings.Builder
	phases []string
}

func (p *printed) Print(phase, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.b.WriteString(text + "\n")
	if phase != "" {
		p.phases = append(p.phases, phase)
	}
}

func (p *printed) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.String()
}

// workshop is a daemon, an engine, and registries that want a login.
type workshop struct {
	room   *room
	engine *builder.BuildKit
	leave  func() // ends the engine
	daemon *daemon.Daemon
	dir    string
	from   *testkit.Registry
	to     *testkit.Registry
	base   string
	layers layers
	far    string // another name of from, which only the egress rules know

	daemonOptions daemon.Options
	engineOptions builder.BuildKitOptions
}

type setup struct {
	memory, disk int64
	near         []string // what the worker itself may reach beside public addresses
}

func newWorkshop(t *testing.T, s setup) *workshop {
	t.Helper()
	testkit.Builders(t)
	w := &workshop{room: newRoom(t), layers: layers{}, from: testkit.NewRegistry(t, testkit.Basic), to: testkit.NewRegistry(t, testkit.Basic)}
	w.base = w.from.Push(t, "base/busybox:1", busybox(t))
	w.room.logins[w.from.Host] = testkit.Password
	w.room.logins[w.to.Host] = testkit.Password
	egress, err := upstream.NewEgress(nil)
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(w.from.Host)
	w.far = "registry.test:" + port
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == w.far {
			return net.Dial(network, w.from.Host)
		}
		return egress.DialContext(ctx, network, address)
	}
	near, err := upstream.NewEgress(s.near)
	if err != nil {
		t.Fatal(err)
	}
	w.daemonOptions = daemon.Options{
		Egress: dial, Forward: []string{w.from.Host, w.to.Host}, Plain: []string{w.from.Host, w.to.Host, w.far},
		Memory: s.memory, Pids: 500, Log: testkit.Log(t),
	}
	w.engineOptions = builder.BuildKitOptions{
		RegistryDeps: builder.RegistryDeps{Work: w.room.client, Egress: near, Registries: w.registries(t), Layers: w.layers}, Disk: s.disk, Log: testkit.Log(t),
	}
	w.start(t)
	return w
}

// start starts a daemon that has built nothing yet, and an engine for it, in the
// place of those that were there.
func (w *workshop) start(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp("", "sw")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	w.dir, w.daemonOptions.Dir = dir, dir
	if w.daemon, err = daemon.Start(context.Background(), w.daemonOptions); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.daemon.Close)
	w.engineOptions.Local = w.daemon
	w.engine = builder.NewBuildKit(w.engineOptions)
	w.leave = testkit.Run(t, w.engine.Run)
	w.ready(t)
}

// registries knows the far name too.
func (w *workshop) registries(t testing.TB) builder.Registries {
	t.Helper()
	hosts := []string{w.from.Host, w.to.Host}
	egress, err := upstream.NewEgress(hosts)
	if err != nil {
		t.Fatal(err)
	}
	return nearby{upstream.New(upstream.Options{Egress: egress, Plain: hosts, Metrics: prometheus.NewRegistry()}), w}
}

type nearby struct {
	*upstream.Client
	w *workshop
}

func (n nearby) Resolve(ctx context.Context, repo upstream.Repository, ref string, a upstream.Access) (digest.Digest, error) {
	if repo.Host == n.w.far {
		repo.Host = n.w.from.Host
	}
	return n.Client.Resolve(ctx, repo, ref, a)
}

func (w *workshop) ready(t testing.TB) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); len(w.engine.Architectures()) == 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the daemon is not ready: %s", w.engine.Problem())
		}
	}
}

func (w *workshop) job(id, dockerfile string) builder.Job {
	return builder.Job{
		ID: id, Delivery: 1, ContentDigest: strings.Repeat("ab", 32), CacheScope: "scope", Ticket: "ticket-" + id,
		Recipe: &buildv1.Recipe{ContainerFile: strings.ReplaceAll(dockerfile, "BASE", w.base), Platform: "linux/amd64", Engine: "buildkit"},
		Target: &buildv1.Target{Registry: w.to.Host, Repository: "made/here", Tag: id},
	}
}

func (w *workshop) build(t *testing.T, job builder.Job) (string, *printed, error) {
	t.Helper()
	out := &printed{}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	start := time.Now()
	digest, err := w.engine.Build(ctx, job, out)
	t.Logf("%s took %s: %s %v\n%s", job.ID, time.Since(start).Round(time.Millisecond), digest, err, out)
	return digest, out, err
}

// pull reads the index that was pushed.
func (w *workshop) pull(t *testing.T, ref string) *remote.Descriptor {
	t.Helper()
	r, err := name.ParseReference(w.to.Host+"/"+ref, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	d, err := remote.Get(r, remote.WithAuth(&authn.Basic{Username: testkit.User, Password: testkit.Password}))
	if err != nil {
		t.Fatal(err)
	}
	return d
}
