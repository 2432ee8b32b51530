// Package buildkittest provides a real daemon with registries for tests of builds.
package buildkittest

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
	registry "github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/opencontainers/go-digest"
	"github.com/prometheus/client_golang/prometheus"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	"slipway.dev/services/builder/daemon"
	"slipway.dev/services/builder/engine/buildkit"
	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/builder/jobs/jobstest"
	"slipway.dev/services/builder/remote"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/upstream"
)

// Busybox returns an image with a shell, made of this machine's programs.
func Busybox(t testing.TB) v1.Image {
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

// Printed is an Output that a test reads.
type Printed struct {
	mu     sync.Mutex
	b      strings.Builder
	Phases []string
}

// Print adds a line.
func (p *Printed) Print(phase, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.b.WriteString(text + "\n")
	if phase != "" {
		p.Phases = append(p.Phases, phase)
	}
}

// String returns the whole output.
func (p *Printed) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.String()
}

// Fixture is a daemon, an engine, and registries that require a login.
type Fixture struct {
	BuildService *jobstest.BuildService
	Engine       *buildkit.Engine
	Leave        func() // ends the engine
	Daemon       *daemon.Daemon
	Dir          string
	From         *testkit.Registry
	To           *testkit.Registry
	Base         string
	Layers       layers
	Far          string // another name of From that only the egress rules know

	daemonOptions daemon.Options
	EngineOptions buildkit.Options
}

// Setup holds the options of a fixture.
type Setup struct {
	Memory, Disk int64
	Near         []string // non-public addresses that the worker itself may reach
}

// NewFixture starts a fixture, or skips the test if this machine cannot build.
func NewFixture(t *testing.T, s Setup) *Fixture {
	t.Helper()
	testkit.Builders(t)
	w := &Fixture{BuildService: jobstest.NewBuildService(t), Layers: layers{}, From: testkit.NewRegistry(t, testkit.Basic), To: testkit.NewRegistry(t, testkit.Basic)}
	w.Base = w.From.Push(t, "base/busybox:1", Busybox(t))
	w.BuildService.Logins[w.From.Host] = testkit.Password
	w.BuildService.Logins[w.To.Host] = testkit.Password
	egress, err := upstream.NewEgress(nil)
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(w.From.Host)
	w.Far = "registry.test:" + port
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == w.Far {
			return new(net.Dialer).DialContext(ctx, network, w.From.Host)
		}
		return egress.DialContext(ctx, network, address)
	}
	near, err := upstream.NewEgress(s.Near)
	if err != nil {
		t.Fatal(err)
	}
	w.daemonOptions = daemon.Options{
		Egress: dial, Forward: []string{w.From.Host, w.To.Host}, Plain: []string{w.From.Host, w.To.Host, w.Far},
		Memory: s.Memory, Pids: 500, Log: testkit.Log(t),
	}
	w.EngineOptions = buildkit.Options{
		Deps: remote.Deps{Work: w.BuildService.Client, Egress: near, Registries: w.registries(t), Layers: w.Layers}, Disk: s.Disk, Log: testkit.Log(t),
	}
	w.Start(t)
	return w
}

// Start starts a daemon without cached builds and an engine for it, in place of the
// previous ones.
func (w *Fixture) Start(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp("", "sw")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	w.Dir, w.daemonOptions.Dir = dir, dir
	if w.Daemon, err = daemon.Start(context.Background(), w.daemonOptions); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Daemon.Close)
	w.EngineOptions.Local = w.Daemon
	w.Engine = buildkit.New(w.EngineOptions)
	w.Leave = testkit.Run(t, w.Engine.Run)
	w.ready(t)
}

// registries returns the registries, which also resolve Far.
func (w *Fixture) registries(t testing.TB) remote.Registries {
	t.Helper()
	hosts := []string{w.From.Host, w.To.Host}
	egress, err := upstream.NewEgress(hosts)
	if err != nil {
		t.Fatal(err)
	}
	return nearby{upstream.New(upstream.Options{Egress: egress, Plain: hosts, Metrics: prometheus.NewRegistry()}), w}
}

type nearby struct {
	*upstream.Client
	w *Fixture
}

// Resolve also resolves Far.
func (n nearby) Resolve(ctx context.Context, repo upstream.Repository, ref string, a upstream.Access) (digest.Digest, error) {
	if repo.Host == n.w.Far {
		repo.Host = n.w.From.Host
	}
	return n.Client.Resolve(ctx, repo, ref, a)
}

func (w *Fixture) ready(t testing.TB) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); len(w.Engine.Architectures()) == 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the daemon is not ready: %s", w.Engine.Problem())
		}
	}
}

// Job returns a job for a Dockerfile, in which BASE is the base image.
func (w *Fixture) Job(id, dockerfile string) jobs.Job {
	return jobs.Job{
		ID: id, Delivery: 1, ContentDigest: strings.Repeat("ab", 32), CacheScope: "scope", Ticket: "ticket-" + id,
		Recipe: &buildv1.Recipe{ContainerFile: strings.ReplaceAll(dockerfile, "BASE", w.Base), Platform: "linux/amd64", Engine: "buildkit"},
		Target: &buildv1.Target{Registry: w.To.Host, Repository: "made/here", Tag: id},
	}
}

// Build builds with the engine and logs its output.
func (w *Fixture) Build(t *testing.T, job jobs.Job) (string, *Printed, error) {
	t.Helper()
	out := &Printed{}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	start := time.Now()
	digest, err := w.Engine.Build(ctx, job, out)
	t.Logf("%s took %s: %s %v\n%s", job.ID, time.Since(start).Round(time.Millisecond), digest, err, out)
	return digest, out, err
}

// Pull reads the index that was pushed.
func (w *Fixture) Pull(t *testing.T, ref string) *registry.Descriptor {
	t.Helper()
	r, err := name.ParseReference(w.To.Host+"/"+ref, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	d, err := registry.Get(r, registry.WithAuth(&authn.Basic{Username: testkit.User, Password: testkit.Password}))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Contents returns the manifest of a pushed index, and its first image.
func Contents(t *testing.T, d *registry.Descriptor) (*v1.IndexManifest, v1.Image) {
	t.Helper()
	index, err := d.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	list, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	img, err := index.Image(list.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return list, img
}
