package container_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container"
	"slipway.dev/services/internal/fault"
)

// lacking is a solver whose channels lack packages, by name: it reports one at a time.
type lacking struct {
	condav1.UnimplementedCondaServiceServer
	absent []string

	mu    sync.Mutex
	asked []*condav1.SolvePackagesRequest
}

func (l *lacking) SolvePackages(ctx context.Context, req *condav1.SolvePackagesRequest) (*condav1.SolvePackagesResponse, error) {
	l.mu.Lock()
	l.asked = append(l.asked, req)
	l.mu.Unlock()
	for _, spec := range req.GetLock().GetPackages().GetEntries() {
		name, _, _ := strings.Cut(spec, "=")
		if !slices.Contains(l.absent, name) {
			continue
		}
		message := "no package is named " + name
		if !req.GetBrief() {
			message += "\nWhat would work:\n- ask for r-near"
		}
		return &condav1.SolvePackagesResponse{Answer: &condav1.LockPackagesResponse{
			Message: &message,
			Conflict: &condav1.Conflict{Reasons: []*condav1.Reason{
				{Kind: proto.String("asked"), Spec: &spec, Because: []*condav1.Reason{{Kind: proto.String("unnamed")}}},
			}},
		}}, nil
	}
	return solvedTo()(ctx)
}

// rPackages requests R packages on the site's own image.
func (s *site) rPackages(fallback string, entries ...string) *containerv1.ContainerRequest {
	r := s.packages(entries...)
	r.Packages.Type, r.Packages.CranFallback, r.BuildTemplate = "CRAN", fallback, "cran/installr:v1"
	return r
}

// TestRPackagesFromSource checks that R packages without a Conda package are built from
// source if the request allows it, and that the others are still assembled from layers.
func TestRPackagesFromSource(t *testing.T) {
	t.Parallel()
	conda := &lacking{absent: []string{"r-one", "r-two", "bioconductor-none"}}
	s := newSolvedSiteWith(t, conda, time.Millisecond, func(d *container.Deps) { d.CondaDefaults.CRANMirror = "https://cran.example.org" })
	if _, err := s.ask(t, s.rPackages("", "one", "dplyr")); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "What would work") {
		t.Errorf("without cranFallback: %v", err)
	}
	first := s.must(t, s.rPackages("source", "one=1.0-2", "dplyr", "two"))
	b := s.builds.last(t)
	files := b.GetRecipe().GetFiles()
	if b.GetRecipe().GetEngine() != "conda" || len(files) != 1 || files[0].GetPath() != ".slipway/cran" || string(files[0].GetContent()) != "https://cran.example.org\none\t1.0-2\ntwo\t\n" {
		t.Errorf("the build is %v", b)
	}
	want := []string{"r-dplyr", "r-base", "c-compiler", "cxx-compiler", "fortran-compiler", "make", "pkg-config"}
	if got := conda.asked[len(conda.asked)-1].GetLock().GetPackages().GetEntries(); !slices.Equal(got, want) {
		t.Errorf("solved is %q, want %q", got, want)
	}
	if again := s.must(t, s.rPackages("source", "one=1.0-2", "dplyr", "two")); !again.GetCached() || again.GetBuildId() != first.GetBuildId() {
		t.Errorf("the same request again is %v", again)
	}
	plain := s.must(t, s.rPackages("", "dplyr"))
	if same := s.must(t, s.rPackages("source", "dplyr")); same.GetBuildId() != plain.GetBuildId() {
		t.Errorf("with Conda packages for all it is %v, without cranFallback %v", same, plain)
	}
	if _, err := s.ask(t, s.rPackages("source", "one", "bioc::none")); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "no package is named bioconductor-none\nWhat would work") {
		t.Errorf("a package that CRAN does not have: %v", err)
	}
	steps := s.rPackages("source", "one")
	steps.Packages.CondaOpts.MambaImage = s.image
	if _, err := s.ask(t, steps); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "packages.cranFallback is for packages that this service solves, which packages.condaOpts.mambaImage prevents") {
		t.Errorf("with an installer: %v", err)
	}
	s.builds.refuseEngine = "buildkit"
	if _, err := s.ask(t, s.rPackages("source", "one=7", "dplyr")); !errors.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), "because of packages.cranFallback, since one must be built from source") {
		t.Errorf("without a worker that runs steps: %v", err)
	}
}

// TestRPackagesFromSourceNeedASolution checks that a request is rejected while its packages
// cannot be solved, since that decides what is built from source.
func TestRPackagesFromSourceNeedASolution(t *testing.T) {
	t.Parallel()
	mirror := func(d *container.Deps) { d.CondaDefaults.CRANMirror = "https://cran.example.org" }
	s := newSolvedSiteWith(t, &solver{answer: fails(fault.Unavailable.Newf("no channel"))}, time.Millisecond, mirror)
	if _, err := s.ask(t, s.rPackages("source", "dplyr")); !errors.Is(err, fault.Unavailable) {
		t.Errorf("without channels: %v", err)
	}
	s = newSolvedSiteWith(t, &solver{answer: solvedTo()}, time.Minute, mirror)
	s.builds.refuseEngine = "conda"
	if _, err := s.ask(t, s.rPackages("source", "dplyr")); !errors.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), "packages.cranFallback") {
		t.Errorf("without a worker for packages: %v", err)
	}
}
