package container

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	condav1 "slipway.dev/proto/gen/slipway/conda/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container/request"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// known answers dry runs alone.
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

// TestWhatIsThereIsFound: an image that was built, or is being built, is served though
// its packages could not be solved today.
func TestWhatIsThereIsFound(t *testing.T) {
	t.Parallel()
	for want, in := range map[bool][]known{true: {{cached: true}}, false: {{}, {err: fault.Unavailable.Newf("x")}}} {
		for _, k := range in {
			b := &buildv1.SubmitBuildRequest{}
			if got := (&Service{deps: Deps{Build: k}}).isMade(t.Context(), b); got != want || b.GetDryRun() {
				t.Errorf("%+v: %v, and the request is %v", k, got, b)
			}
		}
	}
}

// solvedFor is the solver's answer for platforms.
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

// TestALockTravelsWithItsBuild, that of its platform alone, and decides nothing of what
// is built.
func TestALockTravelsWithItsBuild(t *testing.T) {
	t.Parallel()
	amd, arm := ocispec.Platform{OS: "linux", Architecture: "amd64"}, ocispec.Platform{OS: "linux", Architecture: "arm64"}
	r := request.Request{
		Raw: &containerv1.ContainerRequest{}, Platforms: []ocispec.Platform{amd, arm},
		Recipe: &request.Recipe{ContainerFile: "FROM scratch", Parts: []request.Part{{Platform: amd}, {Platform: arm}}},
	}
	s := &Service{}
	to := request.Destination{Registry: "q.example", Repository: "r", Own: true}
	ask := func() *buildv1.SubmitBuildRequest {
		b, err := s.buildRequest(t.Context(), r, nil, to, nil)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	plain := ask()
	r.Foreseen = request.Foresee(solvedFor("linux/amd64", "linux/arm64"), nil)
	got := ask()
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

// TestWithoutALockTheLogSaysWhy: what is for one caller alone is not kept where others
// read it.
func TestWithoutALockTheLogSaysWhy(t *testing.T) {
	t.Parallel()
	private := solvedFor("linux/amd64")
	private.Private = true
	large := solvedFor("linux/amd64")
	large.Records[0] = strings.Repeat(" ", limits.BuildLock)
	machine := &condav1.SolvePackagesResponse{Answer: &condav1.LockPackagesResponse{
		Conflict: &condav1.Conflict{Reasons: []*condav1.Reason{{Kind: proto.String("machine")}}},
	}}
	for want, in := range map[string]*condav1.SolvePackagesResponse{"a login": private, "too large": large, "the machine": machine} {
		f := request.Foresee(in, nil)
		lock, preface := f.Of(ocispec.Platform{OS: "linux", Architecture: "amd64"}, false)
		if lock != nil || f.Conflict != nil || !strings.Contains(preface, want) {
			t.Errorf("%s: %v, %q", want, lock, preface)
		}
	}
}

// unanswering is a solver that gives no answer.
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

// TestTheLogSaysThatNothingWasSolved, in words of ours: an error may name what only the
// caller may know.
func TestTheLogSaysThatNothingWasSolved(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"within 1ms": nil, "a channel could not be read": fault.Unavailable.Newf("secret"), "could not be resolved": fault.Invalid.Newf("secret"),
	} {
		s := &Service{deps: Deps{Conda: unanswering{err: err}, Log: slog.New(slog.DiscardHandler)}}
		s.deps.CondaSolveWait = time.Millisecond
		f := s.foresee(t.Context(), request.Request{Raw: &containerv1.ContainerRequest{Refresh: true}, Recipe: &request.Recipe{Packages: &condav1.CondaPackages{}}}, nil, time.Millisecond)
		if f.Solved != nil || f.Conflict != nil || !strings.Contains(f.Unknown, want) || strings.Contains(f.Unknown, "secret") {
			t.Errorf("%v: %+v", err, f)
		}
	}
}
