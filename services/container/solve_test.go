package container_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container"
	recipes "slipway.dev/services/container/conda"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/internal/testkit"
)

// A solver is a fake conda service.
type solver struct {
	condav1.UnimplementedCondaServiceServer
	answer func(context.Context) (*condav1.SolvePackagesResponse, error)
	// parallel allows concurrent calls; otherwise they are serialized.
	parallel bool

	mu    sync.Mutex
	asked []*condav1.SolvePackagesRequest
}

func (s *solver) SolvePackages(ctx context.Context, req *condav1.SolvePackagesRequest) (*condav1.SolvePackagesResponse, error) {
	s.mu.Lock()
	s.asked = append(s.asked, req)
	if s.parallel {
		s.mu.Unlock()
		return s.answer(ctx)
	}
	defer s.mu.Unlock()
	return s.answer(ctx)
}

// set changes the response.
func (s *solver) set(answer func(context.Context) (*condav1.SolvePackagesResponse, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

const whyNot = "samtools 1.20 does not go with htslib 1.17\nsamtools 1.20 needs htslib >=1.20\nWhat would work:\n- ask for htslib without a version"

// conflict returns the response for an unsatisfiable request. kind is the kind of its last
// reason.
func conflict(kind string) func(context.Context) (*condav1.SolvePackagesResponse, error) {
	return func(context.Context) (*condav1.SolvePackagesResponse, error) {
		return &condav1.SolvePackagesResponse{Answer: &condav1.LockPackagesResponse{
			Message: proto.String(whyNot),
			Conflict: &condav1.Conflict{Reasons: []*condav1.Reason{
				{Kind: proto.String("asked"), Because: []*condav1.Reason{{Kind: proto.String(kind)}}},
			}},
		}}, nil
	}
}

func fails(err error) func(context.Context) (*condav1.SolvePackagesResponse, error) {
	return func(context.Context) (*condav1.SolvePackagesResponse, error) { return nil, err }
}

// newSolvedSite returns a site whose requests are solved before they are built. Only a
// solver that does not respond exceeds wait.
func newSolvedSite(t *testing.T, s condav1.CondaServiceServer, wait time.Duration) *site {
	t.Helper()
	return newSolvedSiteWith(t, s, wait, func(*container.Deps) {})
}

func newSolvedSiteWith(t *testing.T, s condav1.CondaServiceServer, wait time.Duration, change func(*container.Deps), plain ...string) *site {
	t.Helper()
	conn := serve(t, func(to *rpc.Server) {
		condav1.RegisterCondaServiceServer(to, s)
		testkit.AllowRoles(to, "gateway")
	})
	return newSiteWith(t, testkit.SQLite(t), func(d *container.Deps) {
		d.Conda, d.CondaSolveWait, d.CondaLockTTL, d.Version = condav1.NewCondaServiceClient(conn), wait, time.Hour, "1.2.3"
		change(d)
	}, plain...)
}

// impossible returns a request that is sent to the solver.
func impossible(change func(*containerv1.ContainerRequest)) *containerv1.ContainerRequest {
	r := &containerv1.ContainerRequest{
		Packages:          &containerv1.Packages{Type: "CONDA", Entries: []string{"samtools=1.20", "htslib=1.17", "pip:numpy"}, Channels: []string{"bioconda", "nodefaults"}},
		ContainerPlatform: "amd64,arm64",
	}
	change(r)
	return r
}

// TestImpossibleRequestIsRejectedImmediately checks that an unsatisfiable request is rejected
// with the explanation, and that nothing is queued.
func TestImpossibleRequestIsRejectedImmediately(t *testing.T) {
	t.Parallel()
	conda := &solver{answer: conflict("needs")}
	s := newSolvedSite(t, conda, time.Minute)
	_, err := s.ask(t, as("bob", impossible(func(*containerv1.ContainerRequest) {})))
	if e, ok := fault.As(err); !ok || !errors.Is(err, fault.Invalid) || e.Public != whyNot {
		t.Errorf("got %v", err)
	}
	if n := s.builds.count(); n != 0 {
		t.Errorf("%d builds were requested", n)
	}
	if len(conda.asked) != 1 || conda.asked[0].GetIdentity().GetUserId() == 0 {
		t.Fatalf("the solver was called with %v", conda.asked)
	}
	want := &condav1.LockQuery{
		Packages:  &condav1.CondaPackages{Type: "CONDA", Entries: []string{"samtools=1.20", "htslib=1.17", "pip", "conda-forge::procps-ng"}, Channels: []string{"bioconda", "nodefaults"}},
		Platforms: []string{"linux/amd64", "linux/arm64"},
	}
	if diff := cmp.Diff(want, conda.asked[0].GetLock(), protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestBuildContinuesIfSolverFails checks that a request continues if the solver fails. The next error
// is that its images cannot be read here.
func TestBuildContinuesIfSolverFails(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(context.Context) (*condav1.SolvePackagesResponse, error){
		"possible": func(context.Context) (*condav1.SolvePackagesResponse, error) {
			return &condav1.SolvePackagesResponse{}, nil
		},
		"of the machine":       conflict("machine"),
		"channels unreachable": fails(fault.Unavailable.Newf("no channel")),
		"slow": func(ctx context.Context) (*condav1.SolvePackagesResponse, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wait := time.Minute
			if name == "slow" {
				wait = 10 * time.Millisecond
			}
			s := newSolvedSite(t, &solver{answer: answer}, wait)
			_, err := s.ask(t, impossible(func(*containerv1.ContainerRequest) {}))
			if e, ok := fault.As(err); ok && (e.Public == whyNot || !strings.Contains(e.Public, "docker.io")) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestSolverFailureIsReportedFirst checks that problems of the packages are reported
// before missing workers, and that packages are built anyway if a worker installs them.
func TestSolverFailureIsReportedFirst(t *testing.T) {
	t.Parallel()
	reg := testkit.NewRegistry(t, testkit.Open)
	image := reg.Push(t, "library/mamba:1", testkit.Image(t, "amd64", true))
	for name, tc := range map[string]struct {
		answer func(context.Context) (*condav1.SolvePackagesResponse, error)
		want   error
		says   string
		builds bool // a worker installs in steps
	}{
		"they do not fit":     {conflict("needs"), fault.Invalid, whyNot, false},
		"they need a machine": {conflict("machine"), fault.Invalid, whyNot, true},
		"they cannot be read": {fails(fault.Invalid.Newf("bwa==: a version is missing")), fault.Invalid, "bwa==: a version is missing", false},
		"they have commands":  {solvedTo(), fault.Unsupported, "packages.condaOpts.commands", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSolvedSiteWith(t, &solver{answer: tc.answer}, time.Minute, func(d *container.Deps) {
				d.CondaDefaults = recipes.Defaults{Mamba: image, Base: image}
			}, reg.Host)
			r := &containerv1.ContainerRequest{Packages: &containerv1.Packages{
				Type: "CONDA", Entries: []string{"samtools"}, CondaOpts: &containerv1.CondaOptions{BasePackages: proto.String(""), Commands: []string{"RUN true"}},
			}}
			s.builds.refuseEngine = "buildkit"
			if _, err := s.ask(t, r); !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("without a worker: %v", err)
			}
			if r.Packages.CondaOpts.Commands = nil; errors.Is(tc.want, fault.Invalid) {
				if _, err := s.ask(t, r); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("without a worker and without commands: %v", err)
				}
			}
			s.builds.refuseEngine = ""
			if _, err := s.ask(t, r); (err == nil) != tc.builds {
				t.Errorf("with a worker: %v", err)
			}
		})
	}
}

// TestInstallerRequestsAreNotSolved checks that requests that choose the installer are not solved.
func TestInstallerRequestsAreNotSolved(t *testing.T) {
	t.Parallel()
	conda := &solver{answer: conflict("needs")}
	s := newSolvedSite(t, conda, time.Minute)
	s.must(t, s.conda("samtools=1.20", "htslib=1.17")) // with its own installer image
	s.must(t, from(s.image))
	if len(conda.asked) != 0 {
		t.Errorf("the solver was called with %v", conda.asked)
	}
}
