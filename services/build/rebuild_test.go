package build_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/build"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// A rebuilding is a deployment whose images of packages are all built again.
type rebuilding struct {
	*deployment
	replica
	w *worker
}

func newRebuilding(t *testing.T, db *sqldb.DB) *rebuilding {
	t.Helper()
	p := newDeployment(t, db)
	p.verify = 1
	r := p.replica(t, 100)
	w := newWorker(t, p, 1)
	w.appear(t, 1, &buildv1.Capability{Engine: "conda", Architecture: "any"})
	return &rebuilding{p, r, w}
}

// ofPackages returns a request for an image of packages.
func (b *rebuilding) ofPackages(text string) *buildv1.SubmitBuildRequest {
	req := b.request(text, "", nil)
	req.Lock = lockOf("linux/amd64", "linux-64")
	req.Recipe.Engine, req.Recipe.LockDigest = "conda", digest.FromString(req.GetLock().GetRecords()[0]).Encoded()
	return req
}

// build builds an image of packages, and returns the build's id and the documents of the image.
func (b *rebuilding) build(t *testing.T, text string, keys ...string) (id string, manifest, config []byte) {
	t.Helper()
	b.w.appear(t, 1, &buildv1.Capability{Engine: "conda", Architecture: "any"}) // the clock may have changed
	req := b.ofPackages(text)
	b.submit(t, req)
	j := b.w.take(t, b.replica, 1)
	img, err := mutate.Config(testkit.Image(t, "amd64", true), v1.Config{Labels: map[string]string{"text": text}})
	if err != nil {
		t.Fatal(err)
	}
	b.up.Push(t, req.GetTarget().GetRepository()+":"+req.GetTarget().GetTag(), img)
	if manifest, err = img.RawManifest(); err != nil {
		t.Fatal(err)
	}
	if config, err = img.RawConfigFile(); err != nil {
		t.Fatal(err)
	}
	d, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	j.report(t, &buildv1.Result{Succeeded: true, Digest: d.String(), LayerKeys: keys})
	j.ended(t, b.replica)
	return j.id, manifest, config
}

// again takes the rebuild of a build as another worker.
func (b *rebuilding) again(t *testing.T, id string) string {
	t.Helper()
	r := b.offered(t, "other")
	if r.GetBuildId() != id || r.GetLock() == "" || r.GetRecipe().GetEngine() != "conda" || r.GetDeadline() == nil {
		t.Fatalf("the rebuild is %v, want %s", r, id)
	}
	return r.GetTicket()
}

func (b *rebuilding) offered(t *testing.T, worker string) *buildv1.TakeRebuildResponse {
	t.Helper()
	r, err := b.TakeRebuild(t.Context(), &buildv1.TakeRebuildRequest{Worker: worker})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (b *rebuilding) reportRebuild(t *testing.T, r *buildv1.ReportRebuildRequest) error {
	t.Helper()
	_, err := b.ReportRebuild(t.Context(), r)
	return err
}

func (b *rebuilding) stored(t *testing.T, id string) build.Rebuild {
	t.Helper()
	r, err := build.NewRebuilds(b.db).Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// swept sweeps, which must leave a rebuild in a state.
func (b *rebuilding) swept(t *testing.T, id, state string) build.Rebuild {
	t.Helper()
	b.service.Sweep(t.Context())
	r := b.stored(t, id)
	if r.State != state {
		t.Fatalf("the rebuild %+v is not %s", r, state)
	}
	return r
}

const built = buildv1.RebuildOutcome_REBUILD_OUTCOME_BUILT

// TestRebuildSame checks that another worker gets an image that was built, that its equal result is
// stored once and stated in the inputs of the image, and who gets it.
func TestRebuildSame(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		b := newRebuilding(t, db)
		events := b.readEvents(t)
		helper := b.signer(t, b.replica, "helper-ABCDEF-AAAAAA")
		id, manifest, config := b.build(t, "same", helper.id())
		for _, part := range []string{"test", "helper-ABCDEF-AAAAAA", "helper-ABCDEF-BBBBBB", "other-host-ABCDEF-CCCCCC"} {
			if r := b.offered(t, part); r.GetBuildId() != "" || r.GetRetryAfter().AsDuration() != limits.RebuildInterval {
				t.Errorf("%s, which had a part in the image, gets %v", part, r)
			}
		}
		ticket := b.again(t, id)
		if r := b.offered(t, "third"); r.GetBuildId() != "" {
			t.Errorf("a third worker gets %v", r)
		}
		if r, err := b.RenewRebuild(t.Context(), &buildv1.RenewRebuildRequest{Ticket: ticket}); err != nil || r.GetStop() {
			t.Errorf("renewing: %v, %v", r, err)
		}
		for _, forged := range []string{"", "forged", hashOf(ticket)} {
			if err := b.reportRebuild(t, &buildv1.ReportRebuildRequest{Ticket: forged, Outcome: built, Manifest: manifest, Config: config}); !errors.Is(err, fault.NotFound) {
				t.Errorf("a report with the ticket %q: %v", forged, err)
			}
		}
		if err := b.reportRebuild(t, &buildv1.ReportRebuildRequest{Ticket: ticket, Outcome: built, Manifest: manifest, Config: []byte("{}")}); !errors.Is(err, fault.Invalid) {
			t.Errorf("a report with another configuration: %v", err)
		}
		if err := b.reportRebuild(t, &buildv1.ReportRebuildRequest{Ticket: ticket, Outcome: built, Manifest: manifest, Config: config}); err != nil {
			t.Fatal(err)
		}
		if err := b.reportRebuild(t, &buildv1.ReportRebuildRequest{Ticket: ticket, Outcome: built, Manifest: []byte("{}"), Config: config}); !errors.Is(err, fault.NotFound) {
			t.Errorf("a second report: %v", err)
		}
		r := b.stored(t, id)
		if r.State != "SAME" || r.FirstWorker != "test" || r.SecondWorker != "other" || r.FirstDigest != r.SecondDigest || r.Ended.IsZero() {
			t.Errorf("the record is %+v", r)
		}
		in, err := b.DescribeInputs(t.Context(), &buildv1.DescribeInputsRequest{BuildId: id, Digest: r.FirstDigest})
		if again := in.GetRebuilt(); err != nil || again.GetBuildId() != id || again.GetFirstWorker() != r.FirstWorkerID || again.GetSecondWorker() != r.SecondWorkerID ||
			again.GetFirstWorker() == again.GetSecondWorker() || strings.Contains(again.String(), "other") || !again.GetSecondFinishedAt().AsTime().Equal(r.Ended) {
			t.Errorf("the inputs state %v, %v", again, err)
		}
		events.wants(t, id+".build.succeeded", id+".build.verified")

		// A revoked worker has confirmed nothing, and gets nothing.
		b.signer(t, b.replica, "other")
		if _, err := build.NewWorkerKeys(b.db).Revoke(t.Context(), "other", b.clock()); err != nil {
			t.Fatal(err)
		}
		in, err = b.DescribeInputs(t.Context(), &buildv1.DescribeInputsRequest{BuildId: id, Digest: r.FirstDigest})
		if err != nil || in.GetRebuilt() != nil {
			t.Errorf("after the worker was revoked, the inputs state %v, %v", in.GetRebuilt(), err)
		}
		next, _, _ := b.build(t, "next")
		if r := b.offered(t, "other"); r.GetBuildId() != "" {
			t.Errorf("a revoked worker gets %v", r)
		}
		if r := b.offered(t, "third-ABCDEG-AAAAAA"); r.GetBuildId() != next {
			t.Errorf("another worker gets %v", r)
		}
		b.build(t, "one more")
		if r := b.offered(t, "third-ABCDEG-BBBBBB"); r.GetBuildId() != "" {
			t.Errorf("a worker with a rebuild gets %v", r)
		}
	})
}

// TestRebuildDifferent checks the alarm of an image with other bytes: both records, an event, and a
// metric until it is acknowledged. The build is unchanged.
func TestRebuildDifferent(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		b := newRebuilding(t, db)
		events := b.readEvents(t)
		id, manifest, config := b.build(t, "different")
		ticket := b.again(t, id)
		var m ocispec.Manifest
		if err := json.Unmarshal(manifest, &m); err != nil {
			t.Fatal(err)
		}
		was := m.Layers[0].Digest
		m.Layers[0].Digest = digest.FromString("other")
		other, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		report := &buildv1.ReportRebuildRequest{Ticket: ticket, Outcome: built, Manifest: other, Config: config}
		if err := b.reportRebuild(t, report); err != nil {
			t.Fatal(err)
		}
		r := b.stored(t, id)
		if r.State != "DIFFERENT" || r.SecondDigest == r.FirstDigest || len(r.Layers) != 1 || r.Layers[0].First.Digest != was.String() || r.Layers[0].Second.Digest != m.Layers[0].Digest.String() {
			t.Errorf("the record is %+v", r)
		}
		if s := b.state(t, id); s.GetState() != buildv1.BuildState_BUILD_STATE_SUCCEEDED {
			t.Errorf("the build is %v", s)
		}
		in, err := b.DescribeInputs(t.Context(), &buildv1.DescribeInputsRequest{BuildId: id, Digest: r.FirstDigest})
		if err != nil || in.GetRebuilt() != nil {
			t.Errorf("the inputs state %v, %v", in.GetRebuilt(), err)
		}
		events.wants(t, id+".build.succeeded", id+".build.verification_failed")
		if n, err := gauge(b.replicas[0], "slipway_build_rebuilds"); err != nil || n != 1 {
			t.Errorf("the metric is %v, %v", n, err)
		}
		rebuilds := build.NewRebuilds(b.db)
		if list, err := rebuilds.List(t.Context(), false, 10); err != nil || len(list) != 1 {
			t.Errorf("the list is %v, %v", list, err)
		}
		if err := rebuilds.Acknowledge(t.Context(), id, b.clock()); err != nil {
			t.Fatal(err)
		}
		if n, err := gauge(b.replicas[0], "slipway_build_rebuilds"); err != nil || n != 0 {
			t.Errorf("acknowledged, the metric is %v, %v", n, err)
		}
		if list, err := rebuilds.List(t.Context(), false, 10); err != nil || len(list) != 0 {
			t.Errorf("acknowledged, the list is %v, %v", list, err)
		}
		if list, err := rebuilds.List(t.Context(), true, 10); err != nil || len(list) != 1 {
			t.Errorf("all are %v, %v", list, err)
		}
		if err := rebuilds.Acknowledge(t.Context(), "0000000000000000_1", b.clock()); !errors.Is(err, fault.NotFound) {
			t.Errorf("acknowledging nothing: %v", err)
		}
		// A second replica, or the same after a restart, does not report it again.
		b.deployment.replica(t, 100)
		events.wants(t, id+".build.succeeded", id+".build.verification_failed")
	})
}

// TestRebuildEnds checks the ends of rebuilds without a comparison: no other worker, lost workers,
// failures, inputs that do not exist any more, and deleted builds.
func TestRebuildEnds(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		b := newRebuilding(t, db)
		end := func(ticket string, outcome buildv1.RebuildOutcome) {
			t.Helper()
			if err := b.reportRebuild(t, &buildv1.ReportRebuildRequest{Ticket: ticket, Outcome: outcome, Message: strings.Repeat("why ", 1000)}); err != nil {
				t.Fatal(err)
			}
		}
		unavailable, _, _ := b.build(t, "unavailable")
		end(b.again(t, unavailable), buildv1.RebuildOutcome_REBUILD_OUTCOME_UNAVAILABLE)
		if r := b.stored(t, unavailable); r.State != "WAITING" {
			t.Errorf("after one report that inputs do not exist: %+v", r)
		}
		b.sleep(limits.RebuildPause)
		end(b.again(t, unavailable), buildv1.RebuildOutcome_REBUILD_OUTCOME_UNAVAILABLE)
		if r := b.stored(t, unavailable); r.State != "UNAVAILABLE" || len(r.Message) > limits.RebuildMessage+3 || !strings.HasPrefix(r.Message, "why") {
			t.Errorf("the record is %+v", r)
		}

		failing, _, _ := b.build(t, "failing")
		end(b.again(t, failing), buildv1.RebuildOutcome_REBUILD_OUTCOME_RETURNED)
		b.sleep(limits.RebuildRenewal)
		for range limits.RebuildTries {
			end(b.again(t, failing), buildv1.RebuildOutcome_REBUILD_OUTCOME_FAILED)
			if r := b.offered(t, "other"); r.GetBuildId() != "" {
				t.Errorf("right after a failure, a worker gets %v", r)
			}
			b.sleep(limits.RebuildPause * limits.RebuildTries)
		}
		if r := b.swept(t, failing, "ABANDONED"); !strings.HasPrefix(r.Message, "3 attempts failed; the last one: why") {
			t.Errorf("the record is %+v", r)
		}

		lost, manifest, config := b.build(t, "lost")
		ticket := b.again(t, lost)
		b.sleep(limits.RebuildLease + time.Second)
		b.swept(t, lost, "WAITING")
		if err := b.reportRebuild(t, &buildv1.ReportRebuildRequest{Ticket: ticket, Outcome: built, Manifest: manifest, Config: config}); !errors.Is(err, fault.NotFound) {
			t.Errorf("a report after the lease: %v", err)
		}
		ticket = b.again(t, lost)
		if err := b.reportRebuild(t, &buildv1.ReportRebuildRequest{Ticket: ticket, Outcome: built, Manifest: manifest, Config: config}); err != nil || b.stored(t, lost).State != "SAME" {
			t.Errorf("the second attempt: %v", err)
		}

		alone, _, _ := b.build(t, "alone")
		b.sleep(limits.RebuildWait + time.Second)
		if r := b.swept(t, alone, "ABANDONED"); !strings.Contains(r.Message, "No worker that had no part in the first build") {
			t.Errorf("the record is %+v", r)
		}

		deleted, _, _ := b.build(t, "deleted")
		if _, err := b.db.ExecContext(t.Context(), `DELETE FROM build_builds WHERE id = $1`, deleted); err != nil {
			t.Fatal(err)
		}
		b.service.Sweep(t.Context())
		if r, err := build.NewRebuilds(b.db).Get(t.Context(), deleted); !errors.Is(err, fault.NotFound) {
			t.Errorf("the rebuild of a deleted build is %+v, %v", r, err)
		}
	})
}

// TestRebuildRights checks that the ticket of a rebuild grants no login for pushing, and that builds
// of users come first.
func TestRebuildRights(t *testing.T) {
	t.Parallel()
	b := newRebuilding(t, testkit.SQLite(t))
	id, _, _ := b.build(t, "rights")
	ticket := b.again(t, id)
	for _, purpose := range []buildv1.LoginPurpose{buildv1.LoginPurpose_LOGIN_PURPOSE_PUSH, buildv1.LoginPurpose_LOGIN_PURPOSE_CACHE} {
		got, err := b.GetBuildCredentials(t.Context(), &buildv1.GetBuildCredentialsRequest{Ticket: ticket, Registry: b.up.Host, Repository: "builds", Purpose: purpose})
		if err != nil || got.GetPassword() != "" {
			t.Errorf("%s: %v, %v", purpose, got, err)
		}
	}
	if _, err := b.IndexPackages(t.Context(), &buildv1.IndexPackagesRequest{Ticket: ticket}); !errors.Is(err, fault.NotFound) {
		t.Errorf("indexing packages: %v", err)
	}
	b.submit(t, b.ofPackages("of a user"))
	if r, err := b.RenewRebuild(t.Context(), &buildv1.RenewRebuildRequest{Ticket: ticket}); err != nil || r.GetStop() {
		t.Errorf("right after a build was requested, renewing returns %v, %v", r, err)
	}
	poll(t, "the build to be sent to the workers", func(ctx context.Context) error {
		var n int
		err := b.db.QueryRowContext(ctx, `SELECT COUNT(*) FROM build_builds WHERE published_at > 0 AND state = 'PENDING'`).Scan(&n)
		if err == nil && n == 0 {
			err = errors.New("it waits")
		}
		return err
	})
	b.sleep(limits.RebuildYield + time.Second)
	if r, err := b.RenewRebuild(t.Context(), &buildv1.RenewRebuildRequest{Ticket: ticket}); err != nil || !r.GetStop() {
		t.Errorf("while a build waits, renewing returns %v, %v", r, err)
	}
	if err := b.reportRebuild(t, &buildv1.ReportRebuildRequest{Ticket: ticket, Outcome: buildv1.RebuildOutcome_REBUILD_OUTCOME_RETURNED}); err != nil {
		t.Fatal(err)
	}
	b.sleep(limits.RebuildRenewal)
	if r := b.offered(t, "other"); r.GetBuildId() != "" {
		t.Errorf("while a build waits, a worker gets %v", r)
	}
}

// TestRebuildShare checks that about the configured share of builds is selected, the same by every
// replica, and none if the share is 0.
func TestRebuildShare(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	p.verify = 0.5
	a, b := p.replica(t, 10), p.replica(t, 10)
	p.verify = 0
	off := p.replica(t, 10)
	const n = 400
	selected := 0
	for i := range n {
		id := fmt.Sprintf("%016x_1", i)
		one, err1 := build.IsSelected(t.Context(), a.service, id)
		other, err2 := build.IsSelected(t.Context(), b.service, id)
		none, err3 := build.IsSelected(t.Context(), off.service, id)
		if err := errors.Join(err1, err2, err3); err != nil || one != other || none {
			t.Fatalf("%s: %v, %v, %v, %v", id, one, other, none, err)
		}
		if one {
			selected++
		}
	}
	if selected < n*4/10 || selected > n*6/10 {
		t.Errorf("%d of %d are selected", selected, n)
	}
}
