package buildkit_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	registry "github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/opencontainers/go-digest"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/builder/engine/buildkit"
	"slipway.dev/services/builder/engine/buildkit/buildkittest"
	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/builder/jobs/jobstest"
	"slipway.dev/services/builder/remote"
	"slipway.dev/services/internal/testkit"
)

func TestBuildKitPushes(t *testing.T) {
	w := buildkittest.NewFixture(t, buildkittest.Setup{})
	gz, _ := testkit.Tar(t, "dir/from-context", "context")
	job := w.Job("b_1", "FROM BASE\nCOPY dir/from-context own /\nRUN cat /from-context /own\n")
	w.BuildService.Context = gz
	size := int64(len(gz))
	job.Recipe.Context = &containerv1.Layer{Location: "data:", GzipDigest: digest.FromBytes(gz).String(), GzipSize: &size}
	job.Recipe.Files = []*buildv1.File{{Path: "own", Content: []byte("file\n")}}
	job.Target.CacheRepository = w.To.Host + "/cache/here"
	made, out, err := w.Build(t, job)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "contextfile") {
		t.Error("the context's files were not there")
	}
	if fmt.Sprint(out.Phases) != "[build push]" {
		t.Errorf("the phases are %v", out.Phases)
	}
	d := w.Pull(t, "made/here:b_1")
	if d.Digest.String() != made {
		t.Errorf("%s was pushed, %s was told", d.Digest, made)
	}
	im, img := buildkittest.Contents(t, d)
	m, err := img.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range []map[string]string{im.Annotations, m.Annotations} {
		if a["dev.slipway.build-id"] != "b_1" || a["dev.slipway.content-digest"] != job.ContentDigest {
			t.Errorf("the annotations are %v", a)
		}
	}
	if len(im.Manifests) != 2 || im.Manifests[1].Annotations["vnd.docker.reference.type"] != "attestation-manifest" {
		t.Errorf("there is no provenance: %v", im.Manifests)
	}
	for _, a := range w.BuildService.Asked {
		if a.GetTicket() != job.Ticket {
			t.Errorf("a login was asked for with %q", a.GetTicket())
		}
	}
	if cached, err := registry.List(mustRepo(t, w.To.Host+"/cache/here"), registry.WithAuth(&authn.Basic{Username: testkit.User, Password: testkit.Password})); err != nil || len(cached) != 1 {
		t.Errorf("the cache holds %v, %v", cached, err)
	}
	again := w.Job("b_2", strings.ReplaceAll(job.Recipe.GetContainerFile(), w.Base, "BASE"))
	again.Recipe.Context, again.Recipe.Files = job.Recipe.Context, job.Recipe.Files
	if _, out, err := w.Build(t, again); err != nil || !strings.Contains(out.String(), "CACHED") {
		t.Errorf("the second build was not quick: %v", err)
	}
	if rest, _ := filepath.Glob(os.TempDir() + "/build-*"); len(rest) > 0 {
		t.Errorf("contexts were left behind: %v", rest)
	}
	login := testkit.User + ":" + testkit.Password
	for _, secret := range []string{testkit.Password, base64.StdEncoding.EncodeToString([]byte(login)), job.Ticket} {
		if found := holding(t, w.Dir, secret); len(found) > 0 {
			t.Errorf("%q is on disk, in %v", secret, found)
		}
	}
}

// TestBuildKitCachesByScope checks that a build uses cached steps of its own scope only.
func TestBuildKitCachesByScope(t *testing.T) {
	w := buildkittest.NewFixture(t, buildkittest.Setup{Memory: 1 << 30})
	for _, c := range []struct {
		id, scope string
		cached    bool
	}{{"one", "us", false}, {"again", "us", true}, {"theirs", "them", false}} {
		job := w.Job(c.id, "FROM BASE\nRUN echo x > /x\n")
		job.CacheScope = c.scope
		if _, out, err := w.Build(t, job); err != nil || strings.Contains(out.String(), "CACHED") != c.cached {
			t.Errorf("%s: %v", c.id, err)
		}
	}
}

// holding returns the files below a folder that contain a text.
func holding(t *testing.T, dir, text string) (found []string) {
	t.Helper()
	seen := 0
	if err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil //nolint:nilerr // files come and go under us
		}
		raw, err := os.ReadFile(path)
		if err == nil {
			seen++
		}
		if bytes.Contains(raw, []byte(text)) {
			found = append(found, path)
		}
		return nil
	}); err != nil || seen == 0 {
		t.Fatalf("%d files were read in %s: %v", seen, dir, err)
	}
	return found
}

func mustRepo(t *testing.T, ref string) name.Repository {
	t.Helper()
	r, err := name.NewRepository(ref, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestBuildKitRefuses(t *testing.T) {
	w := buildkittest.NewFixture(t, buildkittest.Setup{Disk: 50 << 20})
	gz, _ := testkit.Tar(t, "a", "x")
	size := int64(len(gz))
	private := httptest.NewServer(http.FileServer(http.Dir("/")))
	defer private.Close()
	layer := func(location, d string) *containerv1.Layer {
		return &containerv1.Layer{Location: location, GzipDigest: d, GzipSize: &size}
	}
	w.BuildService.Context = gz
	for _, c := range []struct {
		name   string
		change func(*jobs.Job)
		want   jobs.Reason
		says   string
	}{
		{"no-login-to-push", func(j *jobs.Job) { delete(w.BuildService.Logins, w.To.Host) }, jobs.Push, ""},
		{"no-login-to-read", func(j *jobs.Job) {
			delete(w.BuildService.Logins, w.From.Host)
			j.Recipe.ContainerFile = "FROM " + w.From.Host + "/base/busybox:1\nRUN echo other\n"
		}, jobs.Build, ""},
		{"private-context", func(j *jobs.Job) {
			j.Recipe.Context = layer(private.URL+"/etc/passwd", digest.FromString("").String())
		}, jobs.Build, "not a public address"},
		{"wrong-digest", func(j *jobs.Job) { j.Recipe.Context = layer("data:", digest.FromString("").String()) }, jobs.Build, "its digest is"},
		{"disk", func(j *jobs.Job) {
			j.Recipe.ContainerFile = "FROM " + w.Base + "\nRUN dd if=/dev/urandom of=/big bs=1M count=200 && sleep 60\n"
		}, jobs.Build, "more to disk"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.BuildService.Mu.Lock()
			w.BuildService.Logins[w.From.Host], w.BuildService.Logins[w.To.Host] = testkit.Password, testkit.Password
			j := w.Job(c.name, "FROM BASE\nRUN echo "+c.name+"\n")
			c.change(&j)
			w.BuildService.Mu.Unlock()
			_, _, err := w.Build(t, j)
			if reason(err) != c.want || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v; want %s, %q", err, c.want, c.says)
			}
		})
	}
	t.Run("cancel", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := w.Engine.Build(ctx, w.Job("cancel", "FROM BASE\nRUN sleep 1234\n"), &buildkittest.Printed{})
			ended <- err
		}()
		jobstest.Eventually(t, "the step runs", func() bool { return len(processes("sleep 1234")) > 0 })
		cancel()
		if err := <-ended; err == nil {
			t.Error("it ended well")
		}
		jobstest.Eventually(t, "the step is gone", func() bool { return len(processes("sleep 1234")) == 0 })
	})
}

// TestBuildKitCacheMounts checks that builds of different scopes do not share cache mounts.
func TestBuildKitCacheMounts(t *testing.T) {
	w := buildkittest.NewFixture(t, buildkittest.Setup{})
	for i, c := range []struct {
		scope, run string
		want       jobs.Reason
	}{
		{"one", "echo mine > /c/f", ""},
		{"two", "cat /c/f", jobs.Build},
		{"one", "cat /c/f && echo still", ""},
	} {
		j := w.Job(fmt.Sprintf("m_%d", i), "FROM BASE\nRUN --mount=type=cache,id=x,target=/c "+c.run+"\n")
		j.CacheScope = c.scope
		if _, _, err := w.Build(t, j); reason(err) != c.want || (err == nil) != (c.want == "") {
			t.Errorf("%d: got %v", i, err)
		}
	}
}

// TestBuildKitFetchesThroughTheProxy checks that addresses other than the loopback are only
// reached through the egress rules.
func TestBuildKitFetchesThroughTheProxy(t *testing.T) {
	w := buildkittest.NewFixture(t, buildkittest.Setup{})
	w.BuildService.Mu.Lock()
	w.BuildService.Logins[w.Far] = testkit.Password
	w.BuildService.Mu.Unlock()
	j := w.Job("far_1", "FROM "+w.Far+"/base/busybox:1\nRUN (printf 'GET http://"+w.Far+"/v2/ HTTP/1.0\\r\\n\\r\\n'; sleep 2) | nc 127.0.0.1 3128\n")
	j.Target.Registry = w.Far
	if _, out, err := w.Build(t, j); err != nil || !strings.Contains(out.String(), "401 Unauthorized") {
		t.Errorf("got %v", err)
	}
}

// TestBuildKitElsewhere builds with a remote daemon.
func TestBuildKitElsewhere(t *testing.T) {
	w := buildkittest.NewFixture(t, buildkittest.Setup{})
	address, err := w.Daemon.Address()
	if err != nil {
		t.Fatal(err)
	}
	e := buildkit.New(buildkit.Options{
		Addresses: []string{"unix:///nobody/there", address}, Deps: remote.Deps{Work: w.BuildService.Client}, Log: testkit.Log(t),
	})
	testkit.Run(t, e.Run)
	jobstest.Eventually(t, "one answers", func() bool { return len(e.Architectures()) > 0 })
	if d, err := e.Build(t.Context(), w.Job("e_1", "FROM BASE\nRUN echo x\n"), &buildkittest.Printed{}); err != nil || d == "" {
		t.Errorf("got %q, %v", d, err)
	}
}

// TestBuildKitKeepsLayersApart checks that a layer which was fetched with one caller's
// login cannot be used by another caller that knows its digest.
func TestBuildKitKeepsLayersApart(t *testing.T) {
	w := buildkittest.NewFixture(t, buildkittest.Setup{})
	d, err := buildkittest.Busybox(t).Digest()
	if err != nil {
		t.Fatal(err)
	}
	dockerfile := "FROM " + w.From.Host + "/base/busybox@" + d.String() + "\nRUN echo secret\n"
	if _, _, err := w.Build(t, w.Job("a_1", dockerfile)); err != nil {
		t.Fatal(err)
	}
	delete(w.BuildService.Logins, w.From.Host)
	j := w.Job("a_2", dockerfile+"RUN echo mine\n")
	j.CacheScope = "other"
	if _, _, err := w.Build(t, j); reason(err) != jobs.Build || !strings.Contains(err.Error(), "cannot be used") {
		t.Errorf("somebody without a login built on a private image: %v", err)
	}
}

// processes returns this machine's processes whose command contains a text.
func processes(text string) []string {
	out, _ := exec.Command("ps", "-eo", "pid,args").Output()
	var got []string
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, text) && !strings.Contains(line, "ps -eo") {
			got = append(got, strings.Fields(line)[0])
		}
	}
	return got
}

// TestBuildKitDaemonIsKilled checks that nothing outlives the daemon, that it is restarted,
// and that the build is retried.
func TestBuildKitDaemonIsKilled(t *testing.T) {
	w := buildkittest.NewFixture(t, buildkittest.Setup{Memory: 1 << 30})
	out := &buildkittest.Printed{}
	type ended struct {
		digest string
		err    error
	}
	done := make(chan ended, 1)
	go func() {
		d, err := w.Engine.Build(t.Context(), w.Job("k_1", "FROM BASE\nRUN echo begun; sleep 0007\n"), out)
		done <- ended{d, err}
	}()
	jobstest.Eventually(t, "the step runs", func() bool { return len(processes("sleep 0007")) > 0 })
	before := processes("sleep 0007")
	daemons := processes("buildkitd --config " + w.Dir)
	if len(daemons) != 1 {
		t.Fatalf("there are daemons %v", daemons)
	}
	if err := exec.Command("kill", "-9", daemons[0]).Run(); err != nil {
		t.Fatal(err)
	}
	jobstest.Eventually(t, "all its processes are gone", func() bool {
		for _, pid := range before {
			if _, err := os.Stat("/proc/" + pid); err == nil {
				return false
			}
		}
		return true
	})
	r := <-done
	t.Logf("%v %v\n%s", r.digest, r.err, out)
	if r.err != nil || !strings.Contains(out.String(), "starting over") {
		t.Errorf("the second try ended with %v", r.err)
	}
	w.Leave()
	w.Daemon.Close()
	jobstest.Eventually(t, "its control groups are gone", func() bool {
		left, _ := filepath.Glob("/sys/fs/cgroup/*/slipway/*/k_1.*")
		return len(left) == 0
	})
	if left := append(processes("sleep 0007"), processes(w.Dir)...); len(left) > 0 {
		t.Errorf("processes were left behind: %v", left)
	}
	if mounts, _ := os.ReadFile("/proc/self/mountinfo"); strings.Contains(string(mounts), w.Dir) {
		t.Error("mounts were left behind")
	}
}
