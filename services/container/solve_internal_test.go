package container

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	condav1 "slipway.dev/proto/gen/slipway/conda/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container/request"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// known is a build service that only responds to dry runs.
type known struct {
	buildv1.BuildServiceClient
	cached bool
	err    error
}

func (k known) SubmitBuild(_ context.Context, req *buildv1.SubmitBuildRequest, _ ...grpc.CallOption) (*buildv1.SubmitBuildResponse, error) {
	if !req.GetDryRun() {
		return nil, fault.Invalid.Newf("it was to be asked, not made")
	}
	return &buildv1.SubmitBuildResponse{Cached: k.cached}, k.err
}

// TestExistingImageIsFound checks that an image that exists or is being built is served
// although its packages cannot be solved now.
func TestExistingImageIsFound(t *testing.T) {
	t.Parallel()
	for want, in := range map[bool][]known{true: {{cached: true}}, false: {{}, {err: fault.Unavailable.Newf("x")}}} {
		for _, k := range in {
			b := &buildv1.SubmitBuildRequest{}
			if got := (&Service{deps: Deps{Build: k}}).imageExists(t.Context(), b); got != want || b.GetDryRun() {
				t.Errorf("%+v: %v, and the request is %v", k, got, b)
			}
		}
	}
}

// solvedFor returns the solver's response for platforms.
func solvedFor(names ...string) *condav1.SolvePackagesResponse {
	out := &condav1.SolvePackagesResponse{Answer: &condav1.LockPackagesResponse{}, Channels: []string{"bioconda"}}
	for _, name := range names {
		out.Answer.Locks = append(out.Answer.Locks, &condav1.PlatformLock{
			Platform: proto.String(name), Size: proto.Float64(1.25e6), Packages: make([]*condav1.LockedPackage, 3),
		})
		out.Records, out.Subdirs = append(out.Records, "["+name+"]"), append(out.Subdirs, name+"-folder")
	}
	return out
}

// TestLockIsSentWithBuild checks that a build gets the lock of its platform, which
// does not affect its content ID.
func TestLockIsSentWithBuild(t *testing.T) {
	t.Parallel()
	r := resolved(t, &containerv1.ContainerRequest{ContainerPlatform: "amd64,arm64", Packages: &containerv1.Packages{Type: "CONDA", Entries: []string{"bwa"}}})
	ask := func(known request.Solution) *buildv1.SubmitBuildRequest {
		return r.Build(r.StepsPlan(*r.Packages, known), request.Destination{Registry: "q.example", Repository: "r", Own: true}, "")
	}
	plain := ask(request.Unlocked{})
	got := ask(request.SolutionOf(solvedFor("linux/amd64", "linux/arm64"), r.Platforms, nil))
	if got.GetContentDigest() != plain.GetContentDigest() || got.GetLock() != nil || got.GetPreface() != "" {
		t.Errorf("the index is %v", got)
	}
	for i, name := range []string{"linux/amd64", "linux/arm64"} {
		part := got.GetParts()[i]
		if !proto.Equal(part.GetLock(), solvedFor(name)) || part.GetContentDigest() != plain.GetParts()[i].GetContentDigest() {
			t.Errorf("%s: %v", name, part)
		}
		if want := "Conda: resolved to 3 packages, 1.2 MB to download; the lock of the build lists them"; part.GetPreface() != want {
			t.Errorf("%s: its log begins with %q", name, part.GetPreface())
		}
	}
}

// TestLogExplainsMissingLock checks that private locks are not stored with a build that
// others can read, and that its log says so.
func TestLogExplainsMissingLock(t *testing.T) {
	t.Parallel()
	private := solvedFor("linux/amd64")
	private.Private = true
	large := solvedFor("linux/amd64")
	large.Records[0] = strings.Repeat(" ", limits.BuildLock)
	machine := &condav1.SolvePackagesResponse{Answer: &condav1.LockPackagesResponse{
		Conflict: &condav1.Conflict{Reasons: []*condav1.Reason{{Kind: proto.String("machine")}}},
	}}
	r := resolved(t, &containerv1.ContainerRequest{Packages: &containerv1.Packages{Type: "CONDA", Entries: []string{"bwa"}}})
	for want, in := range map[string]*condav1.SolvePackagesResponse{"a login": private, "too large": large, "the machine": machine} {
		known := request.SolutionOf(in, r.Platforms, nil)
		b := r.Build(r.StepsPlan(*r.Packages, known), request.Destination{}, "")
		if _, conflict := known.(request.Conflict); conflict || b.GetLock() != nil || !strings.Contains(b.GetPreface(), want) {
			t.Errorf("%s: %v", want, b)
		}
	}
}

// unanswering is a solver that does not respond.
type unanswering struct {
	condav1.CondaServiceClient
	err error
}

func (u unanswering) SolvePackages(ctx context.Context, _ *condav1.SolvePackagesRequest, _ ...grpc.CallOption) (*condav1.SolvePackagesResponse, error) {
	if u.err == nil {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return nil, u.err
}

// TestFailuresOfTheSolver checks how each failure of the solver affects the request. Its log
// never repeats an error, which may contain private names.
func TestFailuresOfTheSolver(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err      error
		conflict bool
	}{
		"too slow":            {nil, false},
		"no channel":          {fault.Unavailable.Newf("secret"), false},
		"too many solves":     {fault.Exhausted.Newf("secret"), false},
		"internal":            {errors.New("secret"), false},
		"an unknown channel":  {fault.NotFound.Newf("There is no channel x"), true},
		"a private channel":   {fault.Denied.Newf("h does not let us read the channel"), true},
		"an odd package name": {fault.Invalid.Newf("secret"), true},
	} {
		s := &Service{deps: Deps{Conda: unanswering{err: tc.err}, Log: slog.New(slog.DiscardHandler)}, solver: newSolver(prometheus.NewRegistry())}
		s.deps.CondaSolveWait = time.Millisecond
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		r := request.Resolved{Parsed: request.Parsed{Raw: &containerv1.ContainerRequest{Refresh: true}}}
		of, err := s.solutionOf(ctx, r, request.Packages{Query: &condav1.CondaPackages{}})
		cancel()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		known := of.solution
		_, pending := known.(request.Pending)
		if _, conflict := known.(request.Conflict); conflict != tc.conflict || pending == tc.conflict {
			t.Errorf("%s: %+v", name, known)
		}
	}
}
