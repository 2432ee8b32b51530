package build_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/upstream"
)

// foreign returns the attacker's own request, for a repository that the attacker can write.
func (p *deployment) foreign(text string) *buildv1.SubmitBuildRequest {
	req := p.request(text, "eeee", nil)
	req.Target.Repository = "eve/mine"
	return req
}

// TestForeignAnnotationsDoNotEndBuild pushes an image of the attacker with an annotation that
// has the id of another user's build, and requests that image.
func TestForeignAnnotationsDoNotEndBuild(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	r := p.replica(t, 100)
	w := newWorker(t, p, 1)
	victim := p.request("victim", "", nil)
	id := r.submit(t, victim).GetBuildId()
	attack := p.foreign("attack")
	p.push(t, attack, id)
	if got := r.submit(t, attack); got.GetBuildId() == id || got.GetSucceeded() {
		t.Errorf("the attacker is answered %v", got)
	}
	if got := r.state(t, id); got.GetState() != buildv1.BuildState_BUILD_STATE_QUEUED {
		t.Errorf("the victim's build is %v", got)
	}
	// An image in the service's own repository cannot do that either: an id belongs to one
	// content.
	own := p.request("other", "", nil)
	p.push(t, own, id)
	if got := r.submit(t, own); !strings.HasPrefix(got.GetBuildId(), own.GetContentId()+"_") {
		t.Errorf("an image with another's id is answered %v", got)
	}
	j := w.take(t, r, 1)
	if got := r.state(t, id); j.id != id || got.GetState() != buildv1.BuildState_BUILD_STATE_RUNNING {
		t.Errorf("the worker has %s, and the victim's build is %v", j.id, got)
	}
}

// TestPushedImageDoesNotEndBuild requests an image between its push and the report: the
// build continues until its worker reports the result.
func TestPushedImageDoesNotEndBuild(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	r := p.replica(t, 100)
	w := newWorker(t, p, 1)
	req := p.request("image", "", nil)
	r.submit(t, req)
	j := w.take(t, r, 1)
	digest := p.push(t, req, j.id)
	if got := r.submit(t, req); got.GetBuildId() != j.id || !got.GetCached() || got.GetSucceeded() {
		t.Errorf("meanwhile it is answered as %v", got)
	}
	if got := r.state(t, j.id); got.GetState() != buildv1.BuildState_BUILD_STATE_RUNNING {
		t.Errorf("and is %v", got)
	}
	// The worker's report is lost, and the build times out, but its image exists.
	j.report(t, &buildv1.Result{Reason: "timeout"})
	j.ended(t, r)
	again := r.submit(t, req)
	if !again.GetSucceeded() || again.GetBuildId() == j.id {
		t.Errorf("afterwards it is answered as %v", again)
	}
	if got := r.state(t, again.GetBuildId()); got.GetDigest() != digest {
		t.Errorf("it is %v", got)
	}
	if got := r.state(t, j.id); got.GetReason() != "timeout" {
		t.Errorf("the build that failed is %v", got)
	}
}

// TestFinishedImageIsNotReplaced requests other content with the same content id.
func TestFinishedImageIsNotReplaced(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	r := p.replica(t, 100)
	newWorker(t, p, 1)
	victim := p.request("victim", "", nil)
	p.push(t, victim, victim.GetContentId()+"_1")
	attack := p.request("victim", "", nil)
	attack.ContentDigest = victim.GetContentDigest()[:16] + strings.Repeat("0", 48)
	if got, err := r.SubmitBuild(t.Context(), attack); !errors.Is(err, fault.Conflict) {
		t.Errorf("answered %v, %v", got, err)
	}
}

// TestIDsCannotBeReserved takes the ids that a victim's builds would get.
func TestIDsCannotBeReserved(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	r := p.replica(t, 1000)
	newWorker(t, p, 1)
	victim := p.request("victim", "", nil)
	for n := range 40 { // request images whose annotations have these ids
		attack := p.foreign(fmt.Sprint("attack", n))
		p.push(t, attack, fmt.Sprintf("%s_%d", victim.GetContentId(), n+1))
		r.submit(t, attack)
	}
	// Give these ids to builds of other content.
	for n := range 40 {
		_, err := p.db.ExecContext(t.Context(), `UPDATE build_builds SET id = $1 WHERE id = $2`,
			fmt.Sprintf("%s_%d", victim.GetContentId(), n+1), p.foreign(fmt.Sprint("attack", n)).GetContentId()+"_1")
		if err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	ids := make([]string, 8)
	for i := range ids {
		wg.Go(func() {
			resp, err := r.SubmitBuild(t.Context(), proto.CloneOf(victim))
			if err != nil {
				t.Error(err)
			}
			ids[i] = resp.GetBuildId()
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id != ids[0] || !strings.HasPrefix(id, victim.GetContentId()+"_") {
			t.Fatalf("builds %v; one was enough", ids)
		}
	}
}

// paths is a platform on which every user has a login for quay.test/team, and one for all
// of hub.test.
type paths struct {
	platformv1.AccessServiceClient
}

func (paths) GetCredentials(_ context.Context, req *platformv1.GetCredentialsRequest, _ ...grpc.CallOption) (*platformv1.GetCredentialsResponse, error) {
	name := req.GetRegistry() + "/"
	if !strings.HasPrefix(name, "quay.test/team/") && !strings.HasPrefix(name, "hub.test/") {
		return &platformv1.GetCredentialsResponse{}, nil
	}
	return &platformv1.GetCredentialsResponse{Credentials: &platformv1.Credentials{Username: "ada", Password: "secret"}}, nil
}

// TestLoginsOfABuild requests logins with a build's ticket, for the build's own
// repositories and for others.
func TestLoginsOfABuild(t *testing.T) {
	t.Parallel()
	const read, push, cache = buildv1.LoginPurpose_LOGIN_PURPOSE_READ, buildv1.LoginPurpose_LOGIN_PURPOSE_PUSH, buildv1.LoginPurpose_LOGIN_PURPOSE_CACHE
	p := newDeployment(t, testkit.SQLite(t))
	p.logins = caller.NewKeychain(map[string]upstream.Login{
		p.up.Host: {Username: "service", Password: "x"}, "quay.test": {Username: "reader", Password: "x"},
	}, paths{}).WithBuildRepository(caller.BuildRepository{Host: p.up.Host, Repository: "builds"})
	r := p.replica(t, 100)
	w := newWorker(t, p, 9)
	ada := &platformv1.Identity{Endpoint: "e", UserId: 7}
	for _, tc := range []struct {
		name    string
		who     *platformv1.Identity
		scope   string
		sources []string
		cache   string
		host    string
		repo    string
		why     buildv1.LoginPurpose
		want    string
	}{
		{"the push", nil, "", nil, "", p.up.Host, "builds", push, "service"},
		{"the push, of a user's", ada, "aaaa", nil, "", p.up.Host, "builds/aaaa", push, "service"},
		{"read another repository of the target's registry", nil, "", nil, "", p.up.Host, "prod/secret", read, ""},
		{"push to another repository of the target's registry", nil, "", nil, "", p.up.Host, "prod/app", push, ""},
		{"push without a repository", nil, "", nil, "", p.up.Host, "", push, ""},
		{"push to the parent of the target", ada, "aaaa", nil, "", p.up.Host, "builds", push, ""},
		{"push to the repository of another scope", ada, "aaaa", nil, "", p.up.Host, "builds/bbbb", push, ""},
		{"read the target", nil, "", nil, "", p.up.Host, "builds", read, ""},
		{"read a source in the service's repository", nil, "aaaa", []string{"HOST/builds/bbbb"}, "", p.up.Host, "builds/bbbb", read, ""},
		{"read a source with the login for pushing", nil, "aaaa", []string{"HOST/prod/secret"}, "", p.up.Host, "prod/secret", read, ""},
		{"a cache with the login for pushing", ada, "aaaa", nil, "HOST/prod/app", p.up.Host, "prod/app", cache, ""},
		{"a cache in the service's repository", ada, "aaaa", nil, "HOST/builds", p.up.Host, "builds", cache, ""},
		{"a source of an anonymous client", nil, "aaaa", []string{"quay.test/base"}, "", "quay.test", "base", read, "reader"},
		{"push to a source", nil, "aaaa", []string{"quay.test/base"}, "", "quay.test", "base", push, ""},
		{"a cache of an anonymous client", nil, "", nil, "quay.test/cache", "quay.test", "cache", cache, ""},
		{"a source of a user", ada, "aaaa", []string{"quay.test/team/base"}, "", "quay.test", "team/base", read, "ada"},
		{"another repository of the source's registry", ada, "aaaa", []string{"quay.test/team/base"}, "", "quay.test", "team/more", read, ""},
		{"a source without a login", ada, "aaaa", []string{"quay.test/teams"}, "", "quay.test", "teams", read, ""},
		{"another spelling", ada, "aaaa", []string{"quay.test/team/base"}, "", "QUAY.test", "team/base", read, ""},
		{"another port", ada, "aaaa", []string{"quay.test/team/base"}, "", "quay.test:443", "team/base", read, ""},
		{"a cache of a user", ada, "aaaa", nil, "hub.test/cache", "hub.test", "cache", cache, "ada"},
		{"another repository of the cache's registry", ada, "aaaa", nil, "hub.test/cache", "hub.test", "cached", cache, ""},
		{"read the cache", ada, "aaaa", nil, "hub.test/cache", "hub.test", "cache", read, ""},
		{"no purpose", nil, "", nil, "", p.up.Host, "builds", buildv1.LoginPurpose_LOGIN_PURPOSE_UNSPECIFIED, ""},
	} {
		req := p.request(tc.name, tc.scope, tc.who)
		req.Target.CacheRepository = strings.ReplaceAll(tc.cache, "HOST", p.up.Host)
		for _, s := range tc.sources {
			req.Repositories = append(req.Repositories, strings.ReplaceAll(s, "HOST", p.up.Host))
		}
		r.submit(t, req)
		j := w.take(t, r, 1)
		got, err := r.GetBuildCredentials(t.Context(), &buildv1.GetBuildCredentialsRequest{
			Ticket: j.job.GetTicket(), Registry: tc.host, Repository: tc.repo, Purpose: tc.why,
		})
		if err != nil || got.GetUsername() != tc.want {
			t.Errorf("%s: %q, %v; want %q", tc.name, got.GetUsername(), err, tc.want)
		}
		j.report(t, &buildv1.Result{Reason: "cancelled"})
		j.ended(t, r)
	}
}

// TestStoreLoginIsLimitedToItsBuild checks the login that the embedded store issues: it is for one
// build, with its repository, tag and deadline.
func TestStoreLoginIsLimitedToItsBuild(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	grants := make(chan caller.Grant, 9)
	p.logins = caller.NewKeychain(nil, nil).WithBuildRepository(caller.BuildRepository{
		Host: p.up.Host, Repository: "builds", Login: upstream.Login{Username: "master", Password: "x"},
		IssueLogin: func(g caller.Grant) upstream.Login {
			grants <- g
			return upstream.Login{Username: "grant", Password: "x"}
		},
	})
	r := p.replica(t, 100)
	w := newWorker(t, p, 1)
	req := p.request("image", "", nil)
	r.submit(t, req)
	j := w.take(t, r, 1)
	got, err := r.GetBuildCredentials(t.Context(), &buildv1.GetBuildCredentialsRequest{
		Ticket: j.job.GetTicket(), Registry: p.up.Host, Repository: "builds", Purpose: buildv1.LoginPurpose_LOGIN_PURPOSE_PUSH,
	})
	if err != nil || got.GetUsername() != "grant" {
		t.Fatalf("the worker gets %q, %v", got.GetUsername(), err)
	}
	g := <-grants
	if g.Repository != "builds" || g.Tag != req.GetTarget().GetTag() || g.Build != j.id || g.Until.Sub(j.job.GetDeadline().AsTime()) != time.Minute {
		t.Errorf("it is good for %+v; the deadline is %v", g, j.job.GetDeadline().AsTime())
	}
}

// TestRequestedImagesOfABuild checks that a job lists the images of issued names in the request,
// and that the worker gets logins for those in the service's own repository only.
func TestRequestedImagesOfABuild(t *testing.T) {
	t.Parallel()
	const read, push = buildv1.LoginPurpose_LOGIN_PURPOSE_READ, buildv1.LoginPurpose_LOGIN_PURPOSE_PUSH
	p := newDeployment(t, testkit.SQLite(t))
	p.logins = caller.NewKeychain(nil, paths{}).WithBuildRepository(caller.BuildRepository{
		Host: p.up.Host, Repository: "builds", Login: upstream.Login{Username: "master", Password: "x"},
		IssueLogin: func(g caller.Grant) upstream.Login {
			return upstream.Login{Username: fmt.Sprintf("%s reads %v", g.Repository, g.Reads), Password: "x"}
		},
	})
	r := p.replica(t, 100)
	w := newWorker(t, p, 1)
	req := p.request("given", "aaaa", &platformv1.Identity{Endpoint: "e", UserId: 7})
	image := func(host, repository string) *containerv1.Source {
		return &containerv1.Source{Registry: host, Repository: repository, Reference: assembled}
	}
	req.GivenImages = []*containerv1.Source{image(p.up.Host, "builds"), image(p.up.Host, "builds/bbbb"), image(p.up.Host, "prod/secret"), image("quay.test", "team/x")}
	r.submit(t, req)
	j := w.take(t, r, 1)
	if got := j.job.GetGivenImages(); len(got) != 4 || !proto.Equal(got[0], req.GetGivenImages()[0]) {
		t.Errorf("the job is %v", j.job)
	}
	for _, tc := range []struct {
		host, repo string
		why        buildv1.LoginPurpose
		want       string
	}{
		{p.up.Host, "builds", read, " reads [builds]"},
		{p.up.Host, "builds/bbbb", read, " reads [builds/bbbb]"},
		{p.up.Host, "builds/cccc", read, ""},
		{p.up.Host, "prod/secret", read, ""}, // not the service's own
		{"quay.test", "team/x", read, ""},
		{p.up.Host, "builds", push, ""},
		{p.up.Host, req.GetTarget().GetRepository(), push, req.GetTarget().GetRepository() + " reads [builds builds/bbbb]"},
	} {
		got, err := r.GetBuildCredentials(t.Context(), &buildv1.GetBuildCredentialsRequest{
			Ticket: j.job.GetTicket(), Registry: tc.host, Repository: tc.repo, Purpose: tc.why,
		})
		if err != nil || got.GetUsername() != tc.want {
			t.Errorf("%s/%s: %q, %v; want %q", tc.host, tc.repo, got.GetUsername(), err, tc.want)
		}
	}
}
