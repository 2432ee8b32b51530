package request

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/containerd/platforms"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container/conda"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/dockerfile"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
)

// PackagesField is the request field that the images of Conda packages come from.
const PackagesField = "packages.condaOpts"

// Packages are the validated Conda packages of a request. They become an image as layers on
// their base image, if they are solved before the build, or are installed in steps.
type Packages struct {
	// Query lists the packages that can be solved before the build; nil for none.
	Query *condav1.CondaPackages
	// Base is the base image of the layers.
	Base oci.Reference
	// Steps describes which part of the request requires build steps; "" for none.
	Steps string
	conda conda.Recipe
	ages  ages
	// preface is the first line of the build's log, which explains why packages are
	// installed in steps; "" if they are not, or if no choice of the request caused it.
	preface string
	// inSteps installs the packages.
	inSteps Dockerfile
	// after is the Dockerfile that the request runs on the image of the packages. Its text has
	// no FROM line, and is "" without commands.
	after Dockerfile
}

// ReadPackages validates the Conda packages of the request: its condaFile or, without one, the
// argument packages. These are the packages of the request, in which issued names may have
// been replaced. usual holds the default images. now is the time that minAge is relative to.
func (p Parsed) ReadPackages(packages *containerv1.Packages, usual conda.Defaults, now time.Time) (Packages, error) {
	var c conda.Recipe
	rules, err := readAges(p.Raw, now)
	if err != nil {
		return Packages{}, err
	}
	if file := Decoded(p.Raw.GetCondaFile()); file != "" {
		c, err = conda.ReadFile(file, subdirs(p.Platforms), usual)
	} else {
		c, err = conda.Read(packages, Decoded(packages.GetEnvironment()), subdirs(p.Platforms), usual)
	}
	if err != nil {
		return Packages{}, err
	}
	out, err := p.packagesOf(c)
	out.ages = rules
	if err == nil && out.Query != nil {
		err = checkCompressed(p.Raw)
	}
	return out, err
}

// packagesOf returns validated packages with the two ways to install them.
func (p Parsed) packagesOf(c conda.Recipe) (Packages, error) {
	out := Packages{conda: c, Query: c.Packages(), Steps: c.Steps()}
	var err error
	if out.Base, err = oci.ParseReference(c.BaseImage()); err != nil {
		return out, fault.In("packages.condaOpts.baseImage", err)
	}
	// The request's own choice of an installer is respected.
	switch own := c.OwnInstaller(); {
	case isInSteps(p.Raw.GetBuildTemplate()):
		out.byInstaller("buildTemplate", p.Raw.GetBuildTemplate())
	case own != "":
		out.byInstaller("packages.condaOpts.mambaImage", own)
	}
	if p.IsEnvironment() {
		return p.environmentOf(c, out)
	}
	if p.Raw.GetMount() && out.Steps != "" {
		return out, fault.Invalid.Newf("mount is for packages that are put into layers as they are, but %s requires build steps; leave one of them out", out.Steps)
	}
	if p.Raw.GetKeep() && out.Steps != "" {
		return out, fault.Invalid.Newf("keep is for packages that are put into layers as they are, but %s requires build steps; leave one of them out", out.Steps)
	}
	if err := checkLayersOnly(p.Raw, out.Steps); err != nil {
		return out, err
	}
	if c.HasFallback() && out.Query == nil {
		return out, fault.Invalid.Newf("packages.cranFallback is for packages that this service solves, which %s prevents; leave one of them out", out.Steps)
	}
	if c.Lock != "" && out.Query == nil {
		return out, fault.Invalid.Newf("%s: a lock is put into layers as it is, and not installed; leave it out", out.Steps)
	}
	// Parse the file with only the commands first: its errors refer to lines of the
	// request.
	if out.after, err = readDockerfile(PackagesField, "FROM "+c.BaseImage()+"\n"+c.Lines(), p.Platforms); err != nil {
		return out, inCommand(err, c)
	}
	out.after.text, out.after.files = c.Lines(), c.StepFiles()
	out.inSteps, err = readDockerfile(PackagesField, c.Dockerfile(), p.Platforms)
	out.inSteps.files = c.Files()
	return out, err
}

// byInstaller marks the packages as installed in steps, because of the value of a field of the
// request.
func (p *Packages) byInstaller(field, value string) {
	p.Query, p.Steps = nil, field
	p.preface = fmt.Sprintf("Conda: the packages are installed in steps, because the request sets %s to %s; without it they become layers of the image, solved before the build", field, fault.Quote(value))
}

// LockURL returns the address of a lock; "" for none.
func (p Packages) LockURL() string { return p.conda.LockURL }

// IsLocked reports whether the packages are those of a lock in the request.
func (p Packages) IsLocked() bool { return p.conda.IsLocked() }

// ChannelNames returns the channels that the packages are installed from, without those of a lock.
func (p Packages) ChannelNames() []string { return p.conda.ChannelNames() }

// IsBase reports whether a package is in every environment.
func (p Packages) IsBase(spec string) bool { return p.conda.IsBase(spec) }

// HasFallback reports whether R packages without a Conda package are built from source.
func (p Packages) HasFallback() bool { return p.conda.HasFallback() }

// Unsolved returns the solution of packages that this service does not solve.
func (p Packages) Unsolved() Solution { return Unlocked{Preface: p.preface} }

// FromSource returns the packages with more R packages built from source, because their Conda
// packages conflict. ok is false if the conflict involves no package that can be built from
// source. It returns fault.Invalid if too many packages would be built.
func (p Parsed) FromSource(of Packages, because Conflict) (out Packages, ok bool, err error) {
	c, ok, err := of.conda.FromSource(because.absent, because.involved)
	if err != nil || !ok {
		return of, false, err
	}
	out, err = p.packagesOf(c)
	out.ages = of.ages
	return out, err == nil, err
}

// OnlyLayers returns why the packages cannot be installed in steps; "" if they can.
func (p Parsed) OnlyLayers(of Packages) string {
	switch {
	case of.conda.Lock != "":
		return "This server cannot make an image of a lock: no process plays the role conda, no worker assembles images from packages, or the lock is too large. `slipway info` shows what it can do"
	case of.HasFallback():
		return "packages.cranFallback: this server cannot solve the packages first: no process plays the role conda, or no worker assembles images from packages. `slipway info` shows what it can do"
	case p.IsEnvironment():
		return "format environment: this server cannot make an environment of these packages: no process plays the role conda, or no worker assembles packages. `slipway info` shows what it can do"
	case p.Raw.GetMount():
		return "mount: this server cannot assemble an image from its packages: no process plays the role conda, or no worker assembles images. `slipway info` shows what it can do"
	case p.Raw.GetKeep():
		return "keep: this server cannot assemble an image from its packages: no process plays the role conda, or no worker assembles images. `slipway info` shows what it can do"
	case layersOnly(p.Raw) != "":
		return "buildCompression.mode " + layersOnly(p.Raw) + ": this server cannot assemble an image from its packages: no process plays the role conda, or no worker assembles images. `slipway info` shows what it can do"
	case of.ages.isSet():
		return "asOf and minAge: the packages of this request are not solved by this service, but by the build; leave them out"
	case p.Raw.GetRefresh():
		return "refresh: the packages of this request are not solved by this service, but by the build; leave it out"
	}
	return ""
}

// WithoutSteps extends an error about missing build steps with the reason why the packages
// need steps.
func (p Packages) WithoutSteps(err error) error {
	why, ok := fault.As(err)
	if !ok || !errors.Is(err, fault.Unsupported) || p.Steps == "" {
		return err
	}
	return fault.Unsupported.New(why.Public+". This request needs that because of "+p.Steps+": without it, its packages are put into an image as they are", err).WithCode(why.Code)
}

// LockQuery returns the query for the solver for some platforms.
func (p Packages) LockQuery(all ...ocispec.Platform) *condav1.LockQuery {
	query := &condav1.LockQuery{Packages: p.Query, AsOf: p.ages.asOf, ExcludeNewer: p.ages.excludeNewer, MinAgeExcept: p.ages.except}
	for _, platform := range all {
		query.Platforms = append(query.Platforms, platforms.Format(platform))
	}
	return query
}

// LockIDs returns the IDs that the lock of packages is stored under: shared for all callers,
// and own for a caller who reads channels with a login.
func (p Parsed) LockIDs(of Packages, who caller.ID) (shared, own string) {
	w := digester{sha256.New()}
	w.text("slipway lock", templateVersion, of.Base.String())
	for _, platform := range p.Platforms {
		w.text(platforms.Format(platform))
	}
	w.query(of.Query)
	w.ages(of.ages)
	shared = hex.EncodeToString(w.Sum(nil))
	w.text(who.String())
	return shared, hex.EncodeToString(w.Sum(nil))
}

// queryDigest identifies the query for a platform, as 64 hex digits.
func (p Packages) queryDigest(platform ocispec.Platform) string {
	w := digester{sha256.New()}
	w.text("slipway query", templateVersion, platforms.Format(platform))
	w.query(p.Query)
	w.ages(p.ages)
	return hex.EncodeToString(w.Sum(nil))
}

// subdirs returns the names of platforms in Conda channels.
func subdirs(platforms []ocispec.Platform) []string {
	names := map[string]string{"amd64": "64", "arm64": "aarch64", "386": "32"}
	var out []string
	for _, p := range platforms {
		out = append(out, p.OS+"-"+cmp.Or(names[p.Architecture], p.Architecture))
	}
	return out
}

// inCommand converts an error about a line of the generated file, which the caller has not
// seen, to one about the request's command. The commands start at the second line.
func inCommand(err error, c conda.Recipe) error {
	field, commands := c.Commands()
	e, ok := fault.As(err)
	if !ok {
		return err
	}
	bare := fault.Invalid.New(strings.TrimPrefix(e.Public, "packages.condaOpts: "), err)
	line, why := dockerfile.LineOf(bare)
	for i, command := range commands {
		lines := 1 + strings.Count(command, "\n")
		if line < 2+lines && line > 1 {
			return fault.Invalid.New(fmt.Sprintf("%s[%d]: %s. Each command is a line of a Dockerfile, e.g. RUN echo hello", field, i, why), err)
		}
		line -= lines
	}
	return err
}

// CheckSolved rejects options about the solving of packages for a request whose packages this
// service does not solve. of is nil for a request without Conda packages.
func (p Parsed) CheckSolved(of *Packages) error {
	isSolved := of != nil && of.Query != nil
	if p.Raw.GetRefresh() && !isSolved {
		return fault.Invalid.Newf("refresh solves Conda packages again: it requires packages or condaFile, without a buildTemplate that installs in steps and without packages.condaOpts.mambaImage")
	}
	hasAges := p.Raw.GetAsOf() != "" || p.Raw.GetMinAge() != "" || len(p.Raw.GetMinAgeExcept()) > 0
	switch {
	case !hasAges:
	case !isSolved:
		return fault.Invalid.Newf("asOf and minAge apply to Conda packages that this service solves: they require packages or condaFile, without a buildTemplate that installs in steps and without packages.condaOpts.mambaImage")
	case of.conda.Lock != "" || of.conda.LockURL != "":
		return fault.Invalid.Newf("asOf and minAge do not apply to a lock, which is used as it is; leave them out")
	}
	return nil
}

// encodedFiles returns the base64 files of a request with their maximum decoded lengths.
func encodedFiles(r *containerv1.ContainerRequest) []sized {
	return []sized{
		{"containerFile", r.GetContainerFile(), limits.ContainerFile},
		{"condaFile", r.GetCondaFile(), limits.EnvironmentFile},
		{"packages.environment", r.GetPackages().GetEnvironment(), limits.EnvironmentFile},
	}
}

// checkRecipe validates the form of the recipe's fields.
func checkRecipe(r *containerv1.ContainerRequest) error {
	p := r.GetPackages()
	if !isEmptyPackages(p) {
		switch p.GetType() {
		case "CONDA", conda.TypeCRAN:
		default:
			return fault.Invalid.Newf("packages.type must be CONDA or CRAN, not %q", fault.Quote(p.GetType()))
		}
		if p.GetCranFallback() != "" && p.GetType() != conda.TypeCRAN {
			return fault.Invalid.Newf("packages.cranFallback is for packages of type CRAN; leave it out")
		}
		if r.GetBuildTemplate() == templateR && p.GetType() != conda.TypeCRAN {
			return fault.Invalid.Newf("buildTemplate %s is for packages of type CRAN", templateR)
		}
		if (p.GetEnvironment() == "") == (len(p.GetEntries()) == 0) {
			return fault.Invalid.Newf("packages needs either environment or entries")
		}
	}
	for _, f := range encodedFiles(r) {
		if len(f.value) > limits.Encoded {
			return fault.Invalid.Newf("%s is %d characters long; the maximum is %d", f.field, len(f.value), limits.Encoded)
		}
		raw, err := Decode(f.value)
		if err != nil {
			return fault.Invalid.New(f.field+" must be base64", err)
		}
		if len(raw) > f.most {
			return fault.Invalid.Newf("%s holds %d bytes; the maximum is %d", f.field, len(raw), f.most)
		}
		if !utf8.Valid(raw) {
			return fault.Invalid.Newf("%s must be text in UTF-8; save the file with that encoding", f.field)
		}
	}
	return nil
}
