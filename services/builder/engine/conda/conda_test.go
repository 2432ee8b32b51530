package conda_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	registry "github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	engine "slipway.dev/services/builder/engine/conda"
	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/builder/jobs/jobstest"
	"slipway.dev/services/builder/remote"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/chunked"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/upstream"
)

// lines records a build's output.
type lines struct {
	mu   sync.Mutex
	text []string
}

func (l *lines) Print(_, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, text)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.text, "\n")
}

// bench has a registry with a base image, a channel of real packages, and engines.
type bench struct {
	t       *testing.T
	service *jobstest.BuildService
	images  *testkit.Registry
	base    *containerv1.Source
	channel *httptest.Server
	asked   atomic.Int32
	// respond, if set, may respond in place of the channel.
	respond func(w http.ResponseWriter, r *http.Request) bool
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, service: jobstest.NewBuildService(t), images: testkit.NewRegistry(t, testkit.Open)}
	index := testkit.Index(t, true, "amd64", "arm64")
	b.images.Push(t, "library/base:1", index)
	d, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	b.base = &containerv1.Source{Registry: b.images.Host, Repository: "library/base", Reference: d.String()}
	packages := http.FileServer(http.Dir("../../../conda/packages/artifact/testdata/packages"))
	b.channel = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if b.respond != nil && b.respond(w, r) {
			return
		}
		b.asked.Add(1)
		r.URL.Path = "/" + filepath.Base(r.URL.Path)
		packages.ServeHTTP(w, r)
	}))
	t.Cleanup(b.channel.Close)
	return b
}

// engine creates an engine that stores layers in dir.
func (b *bench) engine(dir string) *engine.Engine {
	b.t.Helper()
	return b.engineWith(engine.Options{Dir: dir, Keep: 1 << 30})
}

// engineWith creates an engine with settings.
func (b *bench) engineWith(o engine.Options) *engine.Engine {
	b.t.Helper()
	egress, err := upstream.NewEgress([]string{"127.0.0.0/8"})
	if err != nil {
		b.t.Fatal(err)
	}
	client := upstream.New(upstream.Options{Egress: egress, Plain: []string{b.images.Host}, Metrics: prometheus.NewRegistry()})
	o.Deps = remote.Deps{Work: b.service.Client, Egress: egress, Registries: client}
	c := engine.New(o)
	if c.Problem() != "" {
		b.t.Fatal(c.Problem())
	}
	return c
}

// record returns the channel's record of a package.
func (b *bench) record(file, name, version, build string, depends ...string) spec.Record {
	b.t.Helper()
	raw, err := os.ReadFile(filepath.Join("../../../conda/packages/artifact/testdata/packages", file))
	if err != nil {
		b.t.Fatal(err)
	}
	sum := sha256.Sum256(raw)
	return spec.Record{
		Name: name, Version: version, Build: build, Depends: append([]string{}, depends...), FileName: file, Size: int64(len(raw)), SHA256: hex.EncodeToString(sum[:]),
		Channel: "lab", Subdir: "linux-64", URL: b.channel.URL + "/lab/linux-64/" + file, Timestamp: 1700000000123,
	}
}

func (b *bench) curl() []spec.Record {
	return []spec.Record{
		b.record("libzlib-1.2.13-h31becfc_5.conda", "libzlib", "1.2.13", "h31becfc_5"),
		b.record("libcurl-8.4.0-h4e8248e_0.conda", "libcurl", "8.4.0", "h4e8248e_0", "libzlib >=1.2"),
	}
}

// job returns a job for a lock, after change.
func (b *bench) job(records []spec.Record, change ...func(*jobs.Job)) jobs.Job {
	b.t.Helper()
	raw, err := json.Marshal(records)
	if err != nil {
		b.t.Fatal(err)
	}
	sum := sha256.Sum256(raw)
	j := jobs.Job{
		ID: "0123456789abcdef_1", Delivery: 1, Lock: string(raw), Ticket: "ticket",
		Recipe: &buildv1.Recipe{Engine: "conda", Platform: "linux/amd64", Source: b.base, LockDigest: hex.EncodeToString(sum[:])},
		Target: &buildv1.Target{Registry: b.images.Host, Repository: "team/env", Tag: "1"},
	}
	for _, f := range change {
		f(&j)
	}
	return j
}

func (b *bench) pulled(platform string) v1.Image {
	b.t.Helper()
	img := b.tagged("1", platform)
	if err := validate.Image(img); err != nil {
		b.t.Fatal(err)
	}
	return img
}

// tagged returns the image that a job has pushed, without a check.
func (b *bench) tagged(tag, platform string) v1.Image {
	b.t.Helper()
	ref, err := name.ParseReference(b.images.Host+"/team/env:"+tag, name.Insecure)
	if err != nil {
		b.t.Fatal(err)
	}
	img, err := registry.Image(ref, registry.WithPlatform(v1.Platform{OS: "linux", Architecture: platform}))
	if err != nil {
		b.t.Fatal(err)
	}
	return img
}

// TestConda builds the image of a lock. It builds it again after a kill, from the stored
// layers, and then on another worker, with the same bytes.
func TestConda(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	dir, lock := t.TempDir(), b.curl()
	out := &lines{}
	first, err := b.engine(dir).Build(t.Context(), b.job(lock), out)
	if err != nil {
		t.Fatal(err)
	}
	img := b.pulled("amd64")
	if d, err := img.Digest(); err != nil || d.String() != first {
		t.Errorf("it says %s; the image is %s, %v", first, d, err)
	}
	for _, want := range []string{"0 of 2 packages exist as layers; fetching the other 2", "2 of 2: lib", "0 layers existed; 2 were sent"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, out)
		}
	}
	cf, err := img.ConfigFile()
	if err != nil || cf.Config.Labels["org.opencontainers.image.title"] != "libcurl=8.4.0" || !strings.Contains(strings.Join(cf.Config.Env, "\n"), "PATH=/opt/conda/bin:") {
		t.Errorf("its configuration is %+v, %v", cf, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "scratch", "left"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, dir := range map[string]string{"the same worker": dir, "another": t.TempDir()} {
		out := &lines{}
		again, err := b.engine(dir).Build(t.Context(), b.job(lock), out)
		if again != first || err != nil || !strings.Contains(out.String(), "2 layers existed; 0 were sent") {
			t.Errorf("on %s it is %s, %v:\n%s", name, again, err, out)
		}
	}
	if n := b.asked.Load(); n != 4 {
		t.Errorf("the channel was asked %d times", n)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "scratch")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	frozen := b.job(lock, func(j *jobs.Job) {
		j.Recipe.Platform = "linux/arm64"
		j.Recipe.Config = &containerv1.ContainerConfig{Env: []string{"GREETING=hello"}}
	})
	if _, err := b.engine(dir).Build(t.Context(), frozen, &lines{}); err != nil {
		t.Fatal(err)
	}
	if cf, err := b.pulled("arm64").ConfigFile(); err != nil || cf.Architecture != "arm64" || !strings.Contains(strings.Join(cf.Config.Env, "\n"), "GREETING=hello") {
		t.Errorf("frozen for arm64 it is %+v, %v", cf, err)
	}
}

// TestCondaVariables checks that the variables of an environment file are set in every
// container.
func TestCondaVariables(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	job := b.job(b.curl(), func(j *jobs.Job) { j.Recipe.Variables = map[string]string{"MY_DATA": "/data dir"} })
	if _, err := b.engine(t.TempDir()).Build(t.Context(), job, &lines{}); err != nil {
		t.Fatal(err)
	}
	if cf, err := b.pulled("amd64").ConfigFile(); err != nil || !slices.Contains(cf.Config.Env, "MY_DATA=/data dir") {
		t.Errorf("the configuration is %+v, %v", cf, err)
	}
}

// TestCondaCompressed checks that the layers of packages are compressed as the recipe
// requests, with the same bytes on every worker, and that those of the base image are
// unchanged. A worker whose stored layers are compressed otherwise builds them again.
func TestCondaCompressed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	dir, level := t.TempDir(), int32(19)
	if _, err := b.engine(dir).Build(t.Context(), b.job(b.curl()), &lines{}); err != nil {
		t.Fatal(err)
	}
	plain := b.pulled("amd64")
	job := b.job(b.curl(), func(j *jobs.Job) { j.Recipe.Compression = &containerv1.Compression{Mode: "zstd", Level: &level} })
	first, err := b.engine(dir).Build(t.Context(), job, &lines{})
	if err != nil {
		t.Fatal(err)
	}
	img := b.tagged("1", "amd64")
	jobstest.CheckLayers(t, img)
	m, err := img.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	was, err := plain.Manifest()
	if err != nil || len(m.Layers) != len(was.Layers) {
		t.Fatalf("%d layers, %v", len(m.Layers), err)
	}
	for i, l := range m.Layers {
		switch n := len(m.Layers) - 3; { // two packages, and the environment's own layer
		case i < n && l.Digest != was.Layers[i].Digest:
			t.Errorf("layer %d of the base image is %v", i, l)
		case i >= n && l.MediaType != ocispec.MediaTypeImageLayerZstd:
			t.Errorf("layer %d is %s", i, l.MediaType)
		}
	}
	cf, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if before, err := plain.ConfigFile(); err != nil || !slices.Equal(cf.RootFS.DiffIDs, before.RootFS.DiffIDs) {
		t.Errorf("it holds %v, and not %v, %v", cf.RootFS.DiffIDs, before, err)
	}
	for _, where := range []string{dir, t.TempDir()} {
		if again, err := b.engine(where).Build(t.Context(), job, &lines{}); again != first || err != nil {
			t.Errorf("again it is %s, %v; it was %s", again, err, first)
		}
	}
}

// TestCondaChunked checks that layers whose files can be fetched one by one are ordinary layers with
// annotations, with the same bytes on every worker.
func TestCondaChunked(t *testing.T) {
	t.Parallel()
	for mode, annotation := range map[string]string{"estargz": chunked.EstargzTOC, "zstd:chunked": chunked.ZstdTOC} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			job := b.job(b.curl(), func(j *jobs.Job) {
				j.Recipe.Compression = &containerv1.Compression{Mode: mode, Force: mode == "estargz"}
			})
			dir := t.TempDir()
			first, err := b.engine(dir).Build(t.Context(), job, &lines{})
			if err != nil {
				t.Fatal(err)
			}
			img := b.tagged("1", "amd64")
			jobstest.CheckLayers(t, img)
			m, err := img.Manifest()
			if err != nil {
				t.Fatal(err)
			}
			for i, l := range m.Layers {
				if isOurs := i >= len(m.Layers)-3; isOurs != (l.Annotations[annotation] != "") {
					t.Errorf("layer %d is %+v", i, l)
				}
			}
			for _, where := range []string{dir, t.TempDir()} {
				if again, err := b.engine(where).Build(t.Context(), job, &lines{}); again != first || err != nil {
					t.Errorf("again it is %s, %v; it was %s", again, err, first)
				}
			}
		})
	}
}

// TestCondaErofs checks that layers of packages are EROFS images, with the same bytes on every worker, and
// that the base image is unchanged.
func TestCondaErofs(t *testing.T) {
	t.Parallel()
	for mode, mediaType := range map[string]string{"erofs": oci.TypeErofsLayer, "erofs+zstd": oci.TypeErofsLayerZstd} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			job := b.job(b.curl(), func(j *jobs.Job) { j.Recipe.Compression = &containerv1.Compression{Mode: mode} })
			dir := t.TempDir()
			first, err := b.engine(dir).Build(t.Context(), job, &lines{})
			if err != nil {
				t.Fatal(err)
			}
			m, err := b.tagged("1", "amd64").Manifest()
			if err != nil {
				t.Fatal(err)
			}
			for i, l := range m.Layers {
				if isOurs := i >= len(m.Layers)-3; isOurs != (string(l.MediaType) == mediaType) {
					t.Errorf("layer %d is %+v", i, l)
				}
			}
			for _, where := range []string{dir, t.TempDir()} {
				if again, err := b.engine(where).Build(t.Context(), job, &lines{}); again != first || err != nil {
					t.Errorf("again it is %s, %v; it was %s", again, err, first)
				}
			}
		})
	}
}

// TestLayersRequireNoSteps checks that an environment with a step is rejected with layers that steps cannot
// create.
func TestLayersRequireNoSteps(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"zstd:chunked", "erofs", "erofs+zstd"} {
		b := newBench(t)
		job := b.job(b.curl(), func(j *jobs.Job) {
			j.Recipe.Compression, j.Recipe.ContainerFile = &containerv1.Compression{Mode: mode}, "RUN true\n"
		})
		if _, err := b.engine(t.TempDir()).Build(t.Context(), job, &lines{}); err == nil || !strings.Contains(err.Error(), "cannot be "+mode) {
			t.Errorf("%s: the build returned %v", mode, err)
		}
	}
}

// TestCondaFails checks locks that no image can be built of, and the reasons.
func TestCondaFails(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	changed, absent := b.record("libffi-3.4.2-h3557bc0_5.tar.bz2", "libffi", "3.4.2", "h3557bc0_5"), b.record("lz4-c-1.9.4-hd600fc2_0.conda", "lz4-c", "1.9.4", "hd600fc2_0")
	b.respond = func(w http.ResponseWriter, r *http.Request) bool {
		gone := strings.Contains(r.URL.Path, "lz4")
		if gone {
			w.WriteHeader(http.StatusNotFound)
		}
		return gone
	}
	changed.SHA256 = strings.Repeat("0", 64)
	c := b.engine(t.TempDir())
	for why, rec := range map[string]spec.Record{
		"does not match the lock": changed, "does not have lz4-c-1.9.4-hd600fc2_0.conda any more": absent,
	} {
		_, err := c.Build(t.Context(), b.job(append(b.curl(), rec)), &lines{})
		var f *jobs.Failure
		if !errors.As(err, &f) || f.Reason != jobs.Build || !strings.Contains(f.Message, why) {
			t.Errorf("%q: %v", why, err)
		}
	}
	wrong := b.job(b.curl(), func(j *jobs.Job) { j.Recipe.LockDigest = strings.Repeat("0", 64) })
	if _, err := c.Build(t.Context(), wrong, &lines{}); err == nil || errors.As(err, new(*jobs.Failure)) {
		t.Errorf("another lock than the recipe's: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	b.respond = func(http.ResponseWriter, *http.Request) bool { cancel(); return false }
	if _, err := c.Build(ctx, b.job([]spec.Record{b.record("libuuid-2.38.1-hb4cce97_0.conda", "libuuid", "2.38.1", "hb4cce97_0")}), &lines{}); err == nil {
		t.Error("a build that was cancelled made an image")
	}
}

// TestPrivateChannel checks that a channel's login is sent to that channel in the form that
// it requires, and to no other host.
func TestPrivateChannel(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var other atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			other.Add(1)
		}
		http.ServeFile(w, r, filepath.Join("../../../conda/packages/artifact/testdata/packages", filepath.Base(r.URL.Path)))
	}))
	t.Cleanup(elsewhere.Close)
	b.respond = func(w http.ResponseWriter, r *http.Request) bool {
		if user, password, _ := r.BasicAuth(); user != testkit.User || password != testkit.Password {
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}
		http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusFound) // the same host with another port
		return true
	}
	host := strings.TrimPrefix(b.channel.URL, "http://")
	b.service.Logins[host] = testkit.Password
	lock := b.curl()
	lock[0].URL = elsewhere.URL + "/lab/linux-64/" + lock[0].FileName
	if _, err := b.engine(t.TempDir()).Build(t.Context(), b.job(lock), &lines{}); err == nil || !strings.Contains(err.Error(), "add credentials for the channel") {
		t.Errorf("without its login: %v", err)
	}
	engine := b.engine(t.TempDir())
	private := b.job(lock, func(j *jobs.Job) {
		j.PrivateChannels, j.CacheScope = []string{b.channel.URL + "/lab"}, "ada"
	})
	if _, err := engine.Build(t.Context(), private, &lines{}); err != nil {
		t.Error(err)
	}
	if other.Load() > 0 {
		t.Error("another server was shown the login")
	}
	b.service.Mu.Lock()
	last := b.service.Asked[len(b.service.Asked)-1]
	b.service.Mu.Unlock()
	if last.GetPurpose() != buildv1.LoginPurpose_LOGIN_PURPOSE_CHANNEL || last.GetRegistry() != host || last.GetRepository() != "lab" {
		t.Errorf("it asked for %v", last)
	}
	if _, err := engine.Build(t.Context(), b.job(lock), &lines{}); err == nil {
		t.Error("somebody without a login gets the layers of somebody with one")
	}
}

// TestCondaDisk checks the limit build_disk, with the sizes that the channel states and
// with the downloaded sizes if it states none.
func TestCondaDisk(t *testing.T) {
	t.Parallel()
	for name, sizes := range map[string][2]int64{"said": {800, 800}, "beyond numbers": {1, math.MaxInt64}, "less than nothing": {math.MinInt64, 2000}, "unsaid": {0, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			lock := b.curl()
			lock[0].Size, lock[1].Size = sizes[0], sizes[1]
			_, err := b.engineWith(engine.Options{Dir: t.TempDir(), Disk: 1000}).Build(t.Context(), b.job(lock), &lines{})
			if f := new(jobs.Failure); !errors.As(err, &f) || !strings.Contains(f.Message, "build_disk") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestCondaDiskFull checks that a worker with a full disk reports that, stores no partial
// layers, and works again when space is available.
func TestCondaDiskFull(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root may make a small disk")
	}
	b, dir := newBench(t), t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("there is no small disk: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	engine := b.engine(dir)
	_, err := engine.Build(t.Context(), b.job(b.curl()), &lines{})
	f := new(jobs.Failure)
	if !errors.As(err, &f) || f.Reason != jobs.Internal || !strings.Contains(f.Message, "disk is full") {
		t.Fatalf("it ended with %v", err)
	}
	for _, sub := range []string{"scratch", "layers/tmp"} {
		if left, err := os.ReadDir(filepath.Join(dir, sub)); err != nil || len(left) > 0 {
			t.Errorf("left in %s: %v, %v", sub, left, err)
		}
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT, "size=64m"); err != nil {
		t.Fatal(err)
	}
	if _, err := engine.Build(t.Context(), b.job(b.curl()), &lines{}); err != nil {
		t.Errorf("with room it ended with %v", err)
	}
}

// TestCondaTogether checks that a worker builds each layer once if concurrent builds need
// the same packages.
func TestCondaTogether(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.together([]*engine.Engine{b.engine(t.TempDir())}, func(string) {})
}

// together runs ten concurrent builds that need the same packages on the engines, and
// checks that each package is fetched once. The function notice receives their output.
func (b *bench) together(engines []*engine.Engine, notice func(text string)) {
	b.t.Helper()
	begin := make(chan struct{})
	b.respond = func(http.ResponseWriter, *http.Request) bool { <-begin; return false }
	var all sync.WaitGroup
	digests := make([]string, 10)
	var known atomic.Int32
	for i := range digests {
		all.Go(func() {
			var err error
			digests[i], err = b.build(b.t.Context(), engines[i%len(engines)], i, outputFunc(func(text string) {
				notice(text)
				if strings.Contains(text, "0 of 2 packages exist") && known.Add(1) == int32(len(digests)) {
					close(begin)
				}
			}))
			if err != nil {
				b.t.Error(err)
			}
		})
	}
	all.Wait()
	if n := b.asked.Load(); n != 2 || len(slices.Compact(digests)) != 1 {
		b.t.Errorf("the channel was asked %d times for 2 packages; the images are %v", n, digests)
	}
}

// outputFunc receives a build's output.
type outputFunc func(text string)

func (p outputFunc) Print(_, text string) { p(text) }
