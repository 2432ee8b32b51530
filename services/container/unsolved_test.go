package container_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	condav1 "slipway.dev/proto/gen/slipway/conda/v1"

	"slipway.dev/services/container"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/internal/testkit"
)

// TestUnsolvedInTime checks that a request which cannot be solved in time is queued for the
// same engine, whatever the reason, and never becomes a Dockerfile.
func TestUnsolvedInTime(t *testing.T) {
	t.Parallel()
	slow := func(ctx context.Context) (*condav1.SolvePackagesResponse, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	for name, tc := range map[string]struct {
		answer func(context.Context) (*condav1.SolvePackagesResponse, error)
		wait   time.Duration
	}{
		"slow":                      {slow, time.Millisecond},
		"busy":                      {fails(fault.Exhausted.Newf("too many")), time.Minute},
		"a channel does not answer": {fails(fault.Unavailable.Newf("no channel")), time.Minute},
		"no time to wait":           {solvedTo(), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSolvedSite(t, &solver{answer: tc.answer}, tc.wait)
			first := s.must(t, s.packages("samtools=1.20", "bwa"))
			b := s.builds.last(t)
			r := b.GetRecipe()
			if r.GetEngine() != "conda" || r.GetContainerFile() != "" || r.GetLockDigest() != "" || len(r.GetQueryDigest()) != 64 || b.GetLock() != nil {
				t.Fatalf("the build is %v", b)
			}
			if q := b.GetUnsolved(); !slices.Equal(q.GetPlatforms(), []string{"linux/amd64"}) || !slices.Equal(q.GetPackages().GetEntries(), []string{"samtools=1.20", "bwa"}) {
				t.Errorf("it is solved from %v", q)
			}
			if !strings.HasSuffix(first.GetTargetImage(), ":samtools-1.20_bwa--"+b.GetContentId()) {
				t.Errorf("its name is %s", first.GetTargetImage())
			}
			if again := s.must(t, s.packages("samtools=1.20", "bwa")); again.GetBuildId() != first.GetBuildId() || !again.GetCached() {
				t.Errorf("the same request is %v", again)
			}
			other := s.must(t, s.packages("samtools=1.21", "bwa"))
			if other.GetBuildId() == first.GetBuildId() {
				t.Error("another request is the same build")
			}
			both := s.packages("samtools=1.20", "bwa")
			both.ContainerPlatform = "linux/amd64,linux/arm64"
			s.must(t, both)
			if index := s.builds.last(t); index.GetUnsolved() != nil || len(index.GetParts()) != 2 || index.GetParts()[1].GetUnsolved().GetPlatforms()[0] != "linux/arm64" {
				t.Errorf("for two platforms it is %v", index)
			}
			sif := s.packages("samtools=1.20", "bwa")
			sif.Format = "sif"
			s.must(t, sif)
			if of := s.builds.last(t); of.GetUnsolved() != nil || len(of.GetParts()) != 1 || of.GetParts()[0].GetContentDigest() != b.GetContentDigest() {
				t.Errorf("a Singularity image is made of %v", of)
			}
		})
	}
}

// TestUnsolvedBelongsToItsCaller checks that an image whose channels may be private is for
// its caller only from the start.
func TestUnsolvedBelongsToItsCaller(t *testing.T) {
	t.Parallel()
	s := newSolvedSite(t, &solver{answer: fails(fault.Unavailable.Newf("no channel"))}, time.Minute)
	s.must(t, as("ada", s.packages("samtools")))
	hers := s.builds.last(t)
	s.must(t, as("bob", s.packages("samtools")))
	his := s.builds.last(t)
	s.must(t, s.packages("samtools"))
	everybodys := s.builds.last(t)
	if hers.GetScope() == "" || hers.GetScope() == his.GetScope() || everybodys.GetScope() != "" {
		t.Errorf("scopes are %q, %q and %q", hers.GetScope(), his.GetScope(), everybodys.GetScope())
	}
}

// TestFailedUnsolvedIsSolvedAgain checks that a request whose queued build has failed
// receives the reason once the solver responds in time.
func TestFailedUnsolvedIsSolvedAgain(t *testing.T) {
	t.Parallel()
	conda := &solver{answer: fails(fault.Unavailable.Newf("no channel"))}
	s := newSolvedSite(t, conda, time.Minute)
	first := s.must(t, s.packages("samtools"))
	s.builds.forget(first.GetBuildId()) // a failed build is not cached
	conda.set(conflict("needs"))
	if _, err := s.ask(t, s.packages("samtools")); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), whyNot) {
		t.Errorf("got %v", err)
	}
	conda.set(solvedTo())
	s.must(t, s.packages("samtools"))
	if b := s.builds.last(t); b.GetRecipe().GetLockDigest() == "" {
		t.Errorf("the build is %v", b)
	}
	conda.set(conflict("needs"))
	s.must(t, s.packages("samtools")) // its lock is stored in place of the failed attempt
}

// TestConcurrentRequestsAreAllDirect sends 300 concurrent requests of one client to a solver that
// accepts four and rejects the others.
func TestConcurrentRequestsAreAllDirect(t *testing.T) {
	t.Parallel()
	places := make(chan struct{}, 4)
	busy := func(context.Context) (*condav1.SolvePackagesResponse, error) {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
			return solvedTo()(t.Context())
		default:
			return nil, fault.Exhausted.Newf("too many")
		}
	}
	s := newSolvedSite(t, &solver{answer: busy, parallel: true}, time.Minute)
	var all sync.WaitGroup
	for i := range 300 {
		all.Go(func() {
			if _, err := s.ask(t, as("ada", s.packages("samtools", fmt.Sprintf("bwa=0.%d", i)))); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	s.builds.mu.Lock()
	defer s.builds.mu.Unlock()
	for _, b := range s.builds.asked {
		if b.GetRecipe().GetEngine() != "conda" {
			t.Fatalf("a build is %v", b)
		}
	}
}

// unsolvedBuilds is a build service with unsolved builds.
type unsolvedBuilds struct {
	*builds
	queue  chan *buildv1.UnsolvedBuild
	solved chan *buildv1.SolveBuildRequest
}

func (u unsolvedBuilds) ClaimUnsolvedBuilds(context.Context, *buildv1.ClaimUnsolvedBuildsRequest) (*buildv1.ClaimUnsolvedBuildsResponse, error) {
	select {
	case b := <-u.queue:
		return &buildv1.ClaimUnsolvedBuildsResponse{Builds: []*buildv1.UnsolvedBuild{b}}, nil
	default:
		return &buildv1.ClaimUnsolvedBuildsResponse{}, nil
	}
}

func (u unsolvedBuilds) SolveBuild(_ context.Context, req *buildv1.SolveBuildRequest) (*buildv1.SolveBuildResponse, error) {
	u.solved <- req
	return &buildv1.SolveBuildResponse{}, nil
}

// TestQueuedBuildsAreSolved checks what the service stores for each outcome of the solver.
func TestQueuedBuildsAreSolved(t *testing.T) {
	t.Parallel()
	query := &condav1.LockQuery{Packages: &condav1.CondaPackages{Type: "CONDA", Entries: []string{"samtools"}}, Platforms: []string{"linux/arm64"}}
	for name, tc := range map[string]struct {
		answer func(context.Context) (*condav1.SolvePackagesResponse, error)
		want   func(*buildv1.SolveBuildRequest) bool
	}{
		"solved": {solvedTo(), func(r *buildv1.SolveBuildRequest) bool {
			return len(r.GetLock().GetRecords()) == 1 && strings.Contains(r.GetLock().GetRecords()[0], "linux-aarch64") && strings.HasPrefix(r.GetPreface(), "Conda: resolved to 3 packages")
		}},
		"private":         {solvedTo(func(r *condav1.SolvePackagesResponse) { r.Private = true }), func(r *buildv1.SolveBuildRequest) bool { return r.GetLock().GetPrivate() }},
		"conflict":        {conflict("needs"), func(r *buildv1.SolveBuildRequest) bool { return r.GetMessage() == whyNot }},
		"no such channel": {fails(fault.NotFound.Newf("There is no channel x")), func(r *buildv1.SolveBuildRequest) bool { return r.GetMessage() == "There is no channel x" }},
		"busy": {fails(fault.Unavailable.Newf("busy").After(7 * time.Second)), func(r *buildv1.SolveBuildRequest) bool {
			return r.GetUnavailable() == "busy" && r.GetRetrySeconds() == 7
		}},
		"broken": {fails(errors.New("secret")), func(r *buildv1.SolveBuildRequest) bool {
			return r.GetUnavailable() != "" && !strings.Contains(r.GetUnavailable(), "secret")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conda := &solver{answer: tc.answer}
			work := unsolvedBuilds{queue: make(chan *buildv1.UnsolvedBuild, 1), solved: make(chan *buildv1.SolveBuildRequest, 1)}
			work.queue <- &buildv1.UnsolvedBuild{BuildId: "beef_1", Query: query, Identity: nil, ClientIp: "192.0.2.7"}
			s := newSolvedSiteWith(t, conda, time.Minute, func(d *container.Deps) {
				work.builds = &builds{states: map[string]*buildv1.AwaitBuildResponse{}}
				d.Build = buildv1.NewBuildServiceClient(serve(t, func(to *rpc.Server) {
					buildv1.RegisterBuildServiceServer(to, work)
					testkit.AllowRoles(to, "gateway")
				}))
			})
			ctx, stop := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { _ = s.service.SolveBuilds(ctx) })
			defer running.Wait()
			defer stop()
			if got := <-work.solved; got.GetBuildId() != "beef_1" || !tc.want(got) {
				t.Errorf("stored %v", got)
			}
		})
	}
}
