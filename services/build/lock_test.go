package build_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	condav1 "slipway.dev/proto/gen/slipway/conda/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// lockOf returns an environment of one package, as the conda service returns it.
func lockOf(platform, subdir string) *condav1.SolvePackagesResponse {
	const name = "libzlib-1.3.1-hb9d3cd8_2.conda"
	url := "https://conda.anaconda.org/conda-forge/" + subdir + "/" + name
	sum := strings.Repeat("d4", 32)
	return &condav1.SolvePackagesResponse{
		Answer: &condav1.LockPackagesResponse{Locks: []*condav1.PlatformLock{{
			Platform: proto.String(platform), Size: proto.Float64(60963),
			Packages: []*condav1.LockedPackage{{Name: proto.String("libzlib"), Version: proto.String("1.3.1"), Url: proto.String(url), Sha256: proto.String(sum)}},
		}}},
		Records: []string{fmt.Sprintf(`[{"name":"libzlib","version":"1.3.1","build":"hb9d3cd8_2","build_number":2,"depends":["__glibc >=2.17"],`+
			`"size":60963,"sha256":%q,"md5":%q,"channel":"conda-forge","subdir":%q,"fn":%q,"url":%q}]`, sum, strings.Repeat("d5", 16), subdir, name, url)},
		Subdirs: []string{subdir}, Channels: []string{"conda-forge"}, ChannelUrls: []string{"https://conda.anaconda.org/conda-forge"},
	}
}

func (r replica) lock(t *testing.T, id, format string) *buildv1.GetBuildLockResponse {
	t.Helper()
	out, err := r.GetBuildLock(t.Context(), &buildv1.GetBuildLockRequest{BuildId: id, Format: format})
	if err != nil {
		t.Fatalf("%s as %q: %v", id, format, err)
	}
	return out
}

// TestLockIsStoredWithBuild checks that a request that joins a build reads the lock of
// the first request, in every format.
func TestLockIsStoredWithBuild(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		p := newDeployment(t, db)
		r := p.replica(t, 100)
		newWorker(t, p, 1)
		req := p.request("locked", "", nil)
		req.Lock = lockOf("linux/amd64", "linux-64")
		id := r.submit(t, req).GetBuildId()
		joining := p.request("locked", "", nil)
		joining.Lock = lockOf("linux/amd64", "linux-aarch64")
		if got := r.submit(t, joining); got.GetBuildId() != id {
			t.Fatalf("it is no part of what is built, but %v is not %s", got, id)
		}
		if diff := cmp.Diff(req.GetLock().GetAnswer().GetLocks(), r.lock(t, id, "").GetLocks(), protocmp.Transform()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		url := req.GetLock().GetAnswer().GetLocks()[0].GetPackages()[0].GetUrl()
		want := "# platform: linux-64\n@EXPLICIT\n" + url + "#" + strings.Repeat("d5", 16) + "\n"
		if got := r.lock(t, id, "explicit"); got.GetText() != want || len(got.GetLocks()) > 0 {
			t.Errorf("explicit:\n%v", got)
		}
		for format, mark := range map[string]string{"conda-lock": "package:", "pixi": "environments:"} {
			if got := r.lock(t, id, format).GetText(); !strings.Contains(got, mark) || !strings.Contains(got, url) || !strings.Contains(got, "conda-forge") {
				t.Errorf("%s:\n%s", format, got)
			}
		}
		if got := r.lock(t, id, "explicit-sha256").GetText(); !strings.Contains(got, url+"#sha256:"+strings.Repeat("d4", 32)) {
			t.Errorf("explicit-sha256:\n%s", got)
		}
		if got := r.lock(t, id, "pixi").GetText(); !strings.Contains(got, "- url: https://conda.anaconda.org/conda-forge/\n") {
			t.Errorf("pixi names no address of the channel:\n%s", got)
		}
		none := r.submit(t, p.request("none", "", nil)).GetBuildId()
		for _, tc := range []struct {
			id, format string
			kind       error
		}{{none, "", fault.NotFound}, {none, "explicit", fault.NotFound}, {"0000000000000000_1", "", fault.NotFound}, {id, "other", fault.Invalid}} {
			if _, err := r.GetBuildLock(t.Context(), &buildv1.GetBuildLockRequest{BuildId: tc.id, Format: tc.format}); !errors.Is(err, tc.kind) {
				t.Errorf("%s as %q: %v", tc.id, tc.format, err)
			}
		}
	})
}

// TestLockOfMultiPlatformBuild checks that the lock of a pair is that of both builds, and that each
// part has its own.
func TestLockOfMultiPlatformBuild(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	r := p.replica(t, 100)
	newWorker(t, p, 1)
	req := p.request("pair", "", nil)
	req.Recipe.Engine = "index"
	one, two := p.request("one", "", nil), p.request("two", "", nil)
	one.Lock, two.Lock = lockOf("linux/amd64", "linux-64"), lockOf("linux/arm64", "linux-aarch64")
	req.Parts = []*buildv1.SubmitBuildRequest{one, two}
	id := r.submit(t, req).GetBuildId()
	if got := r.lock(t, id, "").GetLocks(); len(got) != 2 || got[0].GetPlatform() != "linux/amd64" || got[1].GetPlatform() != "linux/arm64" {
		t.Errorf("got %v", got)
	}
	if got := r.lock(t, id, "pixi").GetText(); !strings.Contains(got, "linux-64") || !strings.Contains(got, "linux-aarch64") {
		t.Errorf("got %s", got)
	}
	if _, err := r.GetBuildLock(t.Context(), &buildv1.GetBuildLockRequest{BuildId: id, Format: "explicit"}); !errors.Is(err, fault.Invalid) {
		t.Errorf("explicit: %v", err)
	}
	if got := r.lock(t, two.GetContentId()+"_1", "explicit").GetText(); !strings.Contains(got, "linux-aarch64") {
		t.Errorf("the part: %s", got)
	}
}

// TestLogStartsWithPreface checks that a log begins with the preface of its build, once,
// if the build is delivered twice.
func TestLogStartsWithPreface(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	r := p.replica(t, 100)
	w := newWorker(t, p, 1)
	req := p.request("preface", "", nil)
	req.Preface = "Conda: resolved to 1 packages"
	r.submit(t, req)
	j := w.take(t, r, 1)
	j.print(t, 1, "one")
	again := j
	again.delivery = 2
	again.tell(t, r)
	again.report(t, &buildv1.Result{Reason: "build"})
	again.ended(t, r)
	if diff := cmp.Diff([]string{"1 Conda: resolved to 1 packages", "2 one"}, r.follow(t, j.id, 0).read(t, 1000)); diff != "" {
		t.Error(diff)
	}
}

// TestAttackLocks checks that locks which cannot be stored are rejected before the build is
// queued.
func TestAttackLocks(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	r := p.replica(t, 100)
	newWorker(t, p, 1)
	for name, spoil := range map[string]func(*condav1.SolvePackagesResponse){
		"too large":        func(l *condav1.SolvePackagesResponse) { l.Records[0] = strings.Repeat(" ", limits.BuildLock) },
		"without a lock":   func(l *condav1.SolvePackagesResponse) { l.Answer = nil },
		"without records":  func(l *condav1.SolvePackagesResponse) { l.Records = nil },
		"without a folder": func(l *condav1.SolvePackagesResponse) { l.Subdirs = nil },
	} {
		req := p.request(name, "", nil)
		req.Lock = lockOf("linux/amd64", "linux-64")
		spoil(req.GetLock())
		if got, err := r.SubmitBuild(t.Context(), req); !errors.Is(err, fault.Invalid) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}
