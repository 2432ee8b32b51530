package container_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	condav1 "slipway.dev/proto/gen/slipway/conda/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/fault"
)

// solvedTo answers with one environment, whatever is asked for.
func solvedTo(change ...func(*condav1.SolvePackagesResponse)) func(context.Context) (*condav1.SolvePackagesResponse, error) {
	out := &condav1.SolvePackagesResponse{Answer: &condav1.LockPackagesResponse{}, Channels: []string{"lab"}}
	for _, p := range []struct{ name, subdir string }{{"linux/amd64", "linux-64"}, {"linux/arm64", "linux-aarch64"}} {
		out.Answer.Locks = append(out.Answer.Locks, &condav1.PlatformLock{Platform: proto.String(p.name), Packages: []*condav1.LockedPackage{
			{Name: proto.String("htslib"), Version: proto.String("1.20")}, {Name: proto.String("samtools"), Version: proto.String("1.20")}, {Name: proto.String("bwa"), Version: proto.String("0.7.18")},
		}})
		out.Records, out.Subdirs = append(out.Records, `[{"name":"samtools","subdir":"`+p.subdir+`"}]`), append(out.Subdirs, p.subdir)
	}
	for _, f := range change {
		f(out)
	}
	return func(context.Context) (*condav1.SolvePackagesResponse, error) { return out, nil }
}

// packages asks for packages on the site's own image.
func (s *site) packages(entries ...string) *containerv1.ContainerRequest {
	return &containerv1.ContainerRequest{Packages: &containerv1.Packages{
		Type: "CONDA", Entries: entries, CondaOpts: &containerv1.CondaOptions{BaseImage: s.image, BasePackages: proto.String("")},
	}}
}

// TestTheLockDecidesTheImage: however packages are written, the image of the same ones
// is the same, and so is its name.
func TestTheLockDecidesTheImage(t *testing.T) {
	t.Parallel()
	s := newSolvedSite(t, &solver{answer: solvedTo()}, time.Minute)
	first := s.must(t, s.packages("samtools=1.20", "bwa"))
	b := s.builds.last(t)
	if r := b.GetRecipe(); r.GetEngine() != "conda" || len(r.GetLockDigest()) != 64 || !strings.HasPrefix(r.GetSource().GetReference(), "sha256:") || r.GetContainerFile() != "" || len(b.GetLock().GetRecords()) != 1 {
		t.Errorf("the build room is asked for %v", b)
	}
	if a := b.GetAlternative(); a.GetEngine() != "buildkit" || !strings.Contains(a.GetContainerFile(), "micromamba") {
		t.Errorf("its alternative is %v", a)
	}
	if !strings.HasSuffix(first.GetTargetImage(), ":bwa-0.7.18_samtools-1.20--"+b.GetContentId()) {
		t.Errorf("the name is %s", first.GetTargetImage())
	}
	file := s.packages()
	file.Packages.Entries, file.Packages.Environment = nil, encoded("dependencies: [bwa, samtools>=1.20]")
	for _, same := range []*containerv1.ContainerRequest{s.packages("bwa", "samtools>=1.2"), file} {
		if again := s.must(t, same); again.GetBuildId() != first.GetBuildId() || !again.GetCached() {
			t.Errorf("another spelling is %v", again)
		}
	}
	both := s.packages("bwa", "samtools=1.20")
	both.ContainerPlatform = "linux/amd64,linux/arm64"
	s.must(t, both)
	if index := s.builds.last(t); len(index.GetParts()) != 2 || index.GetParts()[0].GetContentDigest() != b.GetContentDigest() || index.GetLock() != nil || index.GetAlternative() != nil || index.GetRecipe().GetContainerFile() != "" {
		t.Errorf("for two platforms it is %v", index)
	}
}

// TestALockIsRemembered: the same request is not solved again.
func TestALockIsRemembered(t *testing.T) {
	t.Parallel()
	conda := &solver{answer: solvedTo()}
	s := newSolvedSite(t, conda, time.Minute)
	first := s.must(t, s.packages("samtools", "bwa"))
	conda.mu.Lock()
	conda.answer = conflict("needs") // the channel has changed
	conda.mu.Unlock()
	if again := s.must(t, s.packages("samtools", "bwa")); again.GetBuildId() != first.GetBuildId() || len(conda.asked) != 1 {
		t.Errorf("asked %d times; it is %v", len(conda.asked), again)
	}
	if _, err := s.ask(t, s.packages("samtools")); err == nil {
		t.Error("what was not asked for before is not solved")
	}
}

// TestPrivatePackages: an image with packages that were read with a login is for its
// caller alone, and so is what is remembered of them.
func TestPrivatePackages(t *testing.T) {
	t.Parallel()
	conda := &solver{answer: solvedTo(func(r *condav1.SolvePackagesResponse) {
		r.Private, r.PrivateChannels = true, []string{"https://conda.example.org/corp"}
	})}
	s := newSolvedSite(t, conda, time.Minute)
	s.must(t, as("ada", s.packages("samtools", "bwa")))
	hers := s.builds.last(t)
	if hers.GetScope() == "" || !strings.HasSuffix(hers.GetTarget().GetRepository(), "/"+hers.GetScope()) || len(hers.GetLock().GetPrivateChannels()) != 1 {
		t.Errorf("it is %v", hers)
	}
	s.must(t, as("bob", s.packages("samtools", "bwa")))
	if his := s.builds.last(t); his.GetScope() == hers.GetScope() || len(conda.asked) != 2 {
		t.Errorf("asked %d times; for another it is %v", len(conda.asked), his)
	}
}

// TestFrozenPackages: what is to be baked into the image is in its recipe, and decides
// it.
func TestFrozenPackages(t *testing.T) {
	t.Parallel()
	s := newSolvedSite(t, &solver{answer: solvedTo()}, time.Minute)
	s.must(t, s.packages("samtools", "bwa"))
	plain := s.builds.last(t)
	frozen := as("ada", s.packages("samtools", "bwa"))
	host, _, _ := strings.Cut(s.secret, "/")
	frozen.Freeze, frozen.BuildRepository = true, host+"/team/images"
	frozen.ContainerConfig = &containerv1.ContainerConfig{Env: []string{"A=b"}}
	frozen.CacheRepository = host + "/team/cache"
	s.must(t, frozen)
	b := s.builds.last(t)
	if b.GetRecipe().GetEngine() != "conda" || len(b.GetRecipe().GetConfig().GetEnv()) != 1 || b.GetTarget().GetCacheRepository() == "" || b.GetContentDigest() == plain.GetContentDigest() {
		t.Errorf("it is %v", b)
	}
	sif := proto.CloneOf(frozen)
	sif.Format = "sif"
	s.must(t, sif)
	if of := s.builds.last(t); of.GetRecipe().GetEngine() != "sif" || len(of.GetParts()) != 1 || of.GetParts()[0].GetRecipe().GetEngine() != "conda" {
		t.Errorf("a Singularity image is made of %v", of)
	}
}

// TestWhatIsMadeInSteps: what has to be run is built as ever, and so is everything where
// no worker puts packages together.
func TestWhatIsMadeInSteps(t *testing.T) {
	t.Parallel()
	s := newSolvedSite(t, &solver{answer: solvedTo()}, time.Minute)
	commands, template := s.packages("samtools", "bwa"), s.packages("samtools", "bwa")
	commands.Packages.CondaOpts.Commands = []string{"RUN true"}
	template.BuildTemplate = "conda/micromamba:v2"
	for name, r := range map[string]*containerv1.ContainerRequest{"pip": s.packages("samtools", "pip:numpy"), "commands": commands, "a template": template} {
		r.Packages.CondaOpts.MambaImage = "" // docker.io cannot be reached from here
		if _, err := s.ask(t, r); err == nil || !strings.Contains(err.Error(), "docker.io") {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.builds.refuseEngine = "buildkit"
	commands.Packages.CondaOpts.MambaImage = s.packages("samtools").Packages.CondaOpts.BaseImage
	if _, err := s.ask(t, commands); !errors.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), "because of packages.condaOpts.mambaImage") {
		t.Errorf("without a worker for Dockerfiles: %v", err)
	}
	s.builds.refuseEngine = "conda"
	if _, err := s.ask(t, s.packages("samtools", "bwa")); err == nil || !strings.Contains(err.Error(), "docker.io") {
		t.Errorf("without a worker for packages: %v", err)
	}
}

// refused is the answer for an engine that no worker has.
func refused(req *buildv1.SubmitBuildRequest, engine string) error {
	if engine == "" || req.GetRecipe().GetEngine() != engine {
		return nil
	}
	return fault.Unsupported.Newf("No worker of this service can do that")
}
