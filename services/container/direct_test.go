package container_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	condav1 "slipway.dev/proto/gen/slipway/conda/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container"
	"slipway.dev/services/internal/fault"
)

// solvedTo returns a solver that always returns the same environment.
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

// packages requests packages on the site's own image.
func (s *site) packages(entries ...string) *containerv1.ContainerRequest {
	return &containerv1.ContainerRequest{Packages: &containerv1.Packages{
		Type: "CONDA", Entries: entries, CondaOpts: &containerv1.CondaOptions{BaseImage: s.image, BasePackages: proto.String("")},
	}}
}

// TestLockDeterminesImage checks that different requests for the same packages result in
// the same image and name.
func TestLockDeterminesImage(t *testing.T) {
	t.Parallel()
	s := newSolvedSite(t, &solver{answer: solvedTo()}, time.Minute)
	first := s.must(t, s.packages("samtools=1.20", "bwa"))
	b := s.builds.last(t)
	if r := b.GetRecipe(); r.GetEngine() != "conda" || len(r.GetLockDigest()) != 64 || !strings.HasPrefix(r.GetSource().GetReference(), "sha256:") || r.GetContainerFile() != "" || len(b.GetLock().GetRecords()) != 1 {
		t.Errorf("the build request is %v", b)
	}
	if !proto.Equal(b.GetRecipe().GetCondaOptions(), s.packages().GetPackages().GetCondaOpts()) {
		t.Errorf("the build was requested with %v", b.GetRecipe().GetCondaOptions())
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
	if index := s.builds.last(t); len(index.GetParts()) != 2 || index.GetParts()[0].GetContentDigest() != b.GetContentDigest() || index.GetLock() != nil || index.GetRecipe().GetContainerFile() != "" {
		t.Errorf("for two platforms it is %v", index)
	}
}

// TestLockIsReused checks that the same request is not solved again, also if locks are used
// forever.
func TestLockIsReused(t *testing.T) {
	t.Parallel()
	for _, ttl := range []time.Duration{time.Hour, 0} {
		t.Run(ttl.String(), func(t *testing.T) {
			t.Parallel()
			lockIsReused(t, ttl)
		})
	}
}

func lockIsReused(t *testing.T, ttl time.Duration) {
	conda := &solver{answer: solvedTo()}
	s := newSolvedSiteWith(t, conda, time.Minute, func(d *container.Deps) { d.CondaLockTTL = ttl })
	first := s.must(t, s.packages("samtools", "bwa"))
	conda.mu.Lock()
	conda.answer = conflict("needs") // the channel has changed
	conda.mu.Unlock()
	if again := s.must(t, s.packages("samtools", "bwa")); again.GetBuildId() != first.GetBuildId() || len(conda.asked) != 1 {
		t.Errorf("solved %d times; the response is %v", len(conda.asked), again)
	}
	if _, err := s.ask(t, s.packages("samtools")); err == nil {
		t.Error("a new request is not solved")
	}
}

// TestPrivatePackages checks that an image with packages that were read with a login, and
// its stored lock, are for its caller only.
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
		t.Errorf("solved %d times; the response for another user is %v", len(conda.asked), his)
	}
}

// TestFrozenPackages checks that additions to a frozen image are part of its recipe and
// content ID.
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

// TestStepsOnPackages checks that commands run on the image assembled from packages and
// are part of its content ID.
func TestStepsOnPackages(t *testing.T) {
	t.Parallel()
	s := newSolvedSite(t, &solver{answer: solvedTo()}, time.Minute)
	plain := s.must(t, s.packages("samtools", "bwa"))
	commands, file := s.packages("samtools", "bwa"), s.packages()
	commands.Packages.CondaOpts.Commands = []string{"RUN true", "USER 1"}
	file.Packages.Entries, file.Packages.Environment = nil, encoded("dependencies: [bwa, samtools, pip: [numpy==2.0, 'six']]")
	compiled := s.packages("samtools", "bwa")
	compiled.Packages.CondaOpts.Compile = true
	for name, tc := range map[string]struct {
		r            *containerv1.ContainerRequest
		lines, files string
	}{
		"commands":                     {commands, "RUN true\nUSER 1\n", ""},
		"pip":                          {s.packages("samtools", "bwa", "pip:numpy==2.0", "pip:six"), "", ".slipway/requirements.txt: numpy==2.0\nsix\n"},
		"packages of pip, from a file": {file, "", ".slipway/requirements.txt: numpy==2.0\nsix\n"},
		"modules, compiled":            {compiled, "", ".slipway/compile: "},
	} {
		got := s.must(t, tc.r)
		r := s.builds.last(t).GetRecipe()
		files := ""
		for _, f := range r.GetFiles() {
			files += f.GetPath() + ": " + string(f.GetContent())
		}
		if r.GetEngine() != "conda" || len(r.GetLockDigest()) != 64 || r.GetContainerFile() != tc.lines || files != tc.files || got.GetBuildId() == plain.GetBuildId() {
			t.Errorf("%s: %v is %v", name, got, r)
		}
	}
	stolen := s.packages("samtools")
	stolen.Packages.CondaOpts.Commands = []string{"COPY --from=" + s.secret + " / /"}
	if _, err := s.ask(t, stolen); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "packages.condaOpts") {
		t.Errorf("with an image that the caller cannot read: %v", err)
	}
}

// TestPipIsRequested checks that environments with pip requirements get pip in all formats.
func TestPipIsRequested(t *testing.T) {
	t.Parallel()
	conda := &solver{answer: solvedTo()}
	s := newSolvedSite(t, conda, time.Minute)
	file := s.packages()
	file.Packages.Entries, file.Packages.Environment = nil, encoded("dependencies: [bwa, pip: [six]]")
	s.must(t, file)
	if got := conda.asked[0].GetLock().GetPackages().GetEntries(); !slices.Equal(got, []string{"bwa", "pip"}) {
		t.Errorf("the specifications are %q", got)
	}
}

// TestInstallInSteps checks that packages are installed in steps if the request chooses
// the installer, or if no worker can assemble layers, and that the response explains what
// needs steps if no worker can run them.
func TestInstallInSteps(t *testing.T) {
	t.Parallel()
	s := newSolvedSite(t, &solver{answer: solvedTo()}, time.Minute)
	template := s.packages("samtools", "bwa")
	template.BuildTemplate = "conda/micromamba:v2"
	if _, err := s.ask(t, template); err == nil || !strings.Contains(err.Error(), "docker.io") { // the test cannot reach the installer's image there
		t.Errorf("a template: %v", err)
	}
	s.builds.refuseEngine = "buildkit"
	commands, own := s.packages("samtools"), s.packages("samtools")
	commands.Packages.CondaOpts.Commands = []string{"RUN true"}
	own.Packages.CondaOpts.MambaImage = own.GetPackages().GetCondaOpts().GetBaseImage()
	for why, r := range map[string]*containerv1.ContainerRequest{
		"packages.condaOpts.mambaImage": own, "packages.condaOpts.commands": commands, "what pip installs": s.packages("samtools", "pip:numpy"),
	} {
		if _, err := s.ask(t, r); !errors.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), "because of "+why) {
			t.Errorf("without a worker for Dockerfiles, %s: %v", why, err)
		}
	}
	s.builds.refuseEngine = "conda"
	if _, err := s.ask(t, s.packages("samtools", "bwa")); err == nil || !strings.Contains(err.Error(), "docker.io") {
		t.Errorf("without a worker for packages: %v", err)
	}
}

// refused returns the error for a build that needs an engine that no worker has.
func refused(req *buildv1.SubmitBuildRequest, engine string) error {
	r := req.GetRecipe()
	steps := r.GetContainerFile() != "" || len(r.GetFiles()) > 0
	if engine != "" && (r.GetEngine() == engine || r.GetEngine() == "conda" && engine == "buildkit" && steps) {
		return fault.Unsupported.Newf("No worker of this service can do that")
	}
	return nil
}

// TestPackagesCompressed checks that the compression of layers is passed to the build but
// does not affect the solution.
func TestPackagesCompressed(t *testing.T) {
	t.Parallel()
	conda := &solver{answer: solvedTo()}
	s := newSolvedSite(t, conda, time.Minute)
	plain := s.must(t, s.packages("samtools"))
	level := int32(19)
	asked := s.packages("samtools")
	asked.Compression = &containerv1.Compression{Mode: "zstd", Level: &level}
	got := s.must(t, asked)
	if r := s.builds.last(t).GetRecipe(); r.GetEngine() != "conda" || r.GetCompression().GetMode() != "zstd" || r.GetCompression().GetLevel() != 19 {
		t.Errorf("the build request is %v", r)
	}
	if got.GetBuildId() == plain.GetBuildId() || len(conda.asked) != 1 {
		t.Errorf("the response is %v, without compression %v; solved %d times", got, plain, len(conda.asked))
	}
	usual := s.packages("samtools")
	usual.Compression = &containerv1.Compression{Mode: "gzip"}
	if same := s.must(t, usual); same.GetBuildId() != plain.GetBuildId() {
		t.Errorf("with what is usual it is %v, and was %v", same, plain)
	}
}

// TestRefresh checks that a refreshed request resolves to the new packages from then on,
// for its caller, and to the same image if the packages are unchanged.
func TestRefresh(t *testing.T) {
	t.Parallel()
	conda := &solver{answer: solvedTo()}
	s := newSolvedSite(t, conda, time.Minute)
	refresh := func(r *containerv1.ContainerRequest) *containerv1.ContainerRequest { r.Refresh = true; return r }
	first := s.must(t, s.packages("samtools", "bwa"))
	if same := s.must(t, refresh(s.packages("samtools", "bwa"))); same.GetBuildId() != first.GetBuildId() || len(conda.asked) != 2 {
		t.Errorf("solved %d times, the response without changes is %v", len(conda.asked), same)
	}
	conda.mu.Lock()
	conda.answer = solvedTo(func(r *condav1.SolvePackagesResponse) { r.Records[0] = `[{"name":"samtools","version":"1.21"}]` })
	conda.mu.Unlock()
	if again := s.must(t, s.packages("samtools", "bwa")); again.GetBuildId() != first.GetBuildId() {
		t.Errorf("without refresh it is %v", again)
	}
	newer := s.must(t, as("ada", refresh(s.packages("samtools", "bwa"))))
	if newer.GetBuildId() == first.GetBuildId() {
		t.Error("with refresh it is what it was")
	}
	if hers := s.must(t, as("ada", s.packages("samtools", "bwa"))); hers.GetBuildId() != newer.GetBuildId() {
		t.Errorf("afterwards it is %v, and was %v", hers, newer)
	}
	if others := s.must(t, s.packages("samtools", "bwa")); others.GetBuildId() != first.GetBuildId() || len(conda.asked) != 3 {
		t.Errorf("solved %d times; the response for others is %v", len(conda.asked), others)
	}
	conda.mu.Lock()
	conda.answer = conflict("needs")
	conda.mu.Unlock()
	if _, err := s.ask(t, as("ada", refresh(s.packages("samtools", "bwa")))); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), whyNot) {
		t.Errorf("what cannot be any more: %v", err)
	}
	if hers := s.must(t, as("ada", s.packages("samtools", "bwa"))); hers.GetBuildId() != newer.GetBuildId() {
		t.Errorf("what cannot be is remembered: %v", hers)
	}
}

// TestRefreshIsForPackages checks that a refresh is rejected if nothing is solved.
func TestRefreshIsForPackages(t *testing.T) {
	t.Parallel()
	s := newSolvedSite(t, &solver{answer: fails(fault.Unavailable.Newf("no channel"))}, time.Minute)
	own := s.packages("samtools")
	own.Packages.CondaOpts.MambaImage = s.image
	for name, r := range map[string]*containerv1.ContainerRequest{
		"an image": {ContainerImage: s.image}, "a Dockerfile": from(s.image), "its own installer": own,
	} {
		r.Refresh = true
		if _, err := s.ask(t, r); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "refresh") {
			t.Errorf("%s: %v", name, err)
		}
	}
	late := s.packages("samtools")
	late.Refresh = true
	if _, err := s.ask(t, late); !errors.Is(err, fault.Unavailable) {
		t.Errorf("with a channel that does not answer: %v", err)
	}
	if n := s.builds.count(); n != 0 {
		t.Errorf("%d builds were requested", n)
	}
}

// TestBasePackagesThatAreMissing checks that an error about a base package explains where
// it comes from and how to avoid it.
func TestBasePackagesThatAreMissing(t *testing.T) {
	t.Parallel()
	const advice = "is a base package, which every environment gets: name others, or none, in packages.condaOpts.basePackages"
	missing := func(context.Context) (*condav1.SolvePackagesResponse, error) {
		return &condav1.SolvePackagesResponse{Answer: &condav1.LockPackagesResponse{
			Message:  proto.String("No package is named procps-ng"),
			Conflict: &condav1.Conflict{Specs: []string{"procps-ng"}, Missing: []*condav1.MissingPackage{{Name: proto.String("procps-ng")}}},
		}}, nil
	}
	s := newSolvedSite(t, &solver{answer: missing}, time.Minute)
	unasked := s.packages("samtools")
	unasked.Packages.CondaOpts.BasePackages = nil
	if _, err := s.ask(t, unasked); err == nil || !strings.Contains(err.Error(), "No package is named procps-ng\nWhat would work:\n- procps-ng "+advice) {
		t.Errorf("a base package: %v", err)
	}
	if _, err := s.ask(t, s.packages("procps-ng")); err == nil || strings.Contains(err.Error(), advice) {
		t.Errorf("the same package, requested explicitly: %v", err)
	}
}

// TestSociRequests checks that soci is a part of a build, and that the response states when it has no
// effect.
func TestSociRequests(t *testing.T) {
	t.Parallel()
	s := newSolvedSite(t, &solver{answer: solvedTo()}, time.Minute)
	plain := s.must(t, s.packages("samtools"))
	with := s.packages("samtools")
	with.Soci = true
	got := s.must(t, with)
	if got.GetBuildId() == plain.GetBuildId() || got.Message != nil || plain.Message != nil || !s.builds.last(t).GetRecipe().GetSoci() {
		t.Errorf("got %v, and without soci %v", got, plain)
	}
	with.SociPrefetch = []string{"/opt/conda/bin/samtools", "/opt/conda/bin/python"}
	prefetched := s.must(t, with)
	if paths := s.builds.last(t).GetRecipe().GetSociPrefetch(); prefetched.GetBuildId() == got.GetBuildId() || len(paths) != 2 || paths[0] != "/opt/conda/bin/python" {
		t.Errorf("got %v, with the paths %q", prefetched, paths)
	}
	if got := s.must(t, &containerv1.ContainerRequest{ContainerImage: s.image, Soci: true}); !strings.Contains(got.GetMessage(), "SOCI") {
		t.Errorf("for an existing image: %v", got)
	}
}
