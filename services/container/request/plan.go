package request

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	condav1 "slipway.dev/proto/gen/slipway/conda/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container/conda"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/oci"
)

// A BuildPlan is one way to build the image of a request. Its destination is not part of it.
type BuildPlan struct {
	// Field is the request field that the images come from, for messages.
	Field string
	// Parts lists the builds, one for each requested platform.
	Parts []PlanPart
	// MayBePrivate reports whether a channel is, or may turn out to be, read with the login of
	// the caller.
	MayBePrivate bool
	// names determines the image's name. With the zero value it is only the content ID.
	names conda.Naming
	// shownFile is the Dockerfile that users see for an index or a Singularity image; "" for
	// images that are assembled from packages. condaFile is the environment as users see it;
	// "" for none.
	shownFile, condaFile string
}

// A PlanPart is the build for one platform.
type PlanPart struct {
	// Images lists the images that it reads.
	Images []oci.Reference
	recipe *buildv1.Recipe
	// lock is stored with the build; nil for none. preface is the first line of its log.
	lock    *condav1.SolvePackagesResponse
	preface string
	// unsolved is the query of pending packages, and solvedFrom that of packages that can be
	// solved again; otherwise nil.
	unsolved, solvedFrom *condav1.LockQuery
}

// DockerfilePlan returns the plan for the Dockerfile of the request.
func (r Resolved) DockerfilePlan() BuildPlan {
	out := BuildPlan{Field: r.File.Field, shownFile: r.File.text, condaFile: Decoded(r.Raw.GetCondaFile())}
	for _, p := range r.File.Parts {
		recipe := r.recipe("buildkit", *r.File, p, out.condaFile)
		if out.condaFile != "" {
			recipe.Files = append(slices.Clip(recipe.Files), &buildv1.File{Path: "conda.yml", Content: []byte(out.condaFile)})
		}
		out.Parts = append(out.Parts, PlanPart{Images: p.Images, recipe: recipe})
	}
	return out
}

// StepsPlan returns the plan to install Conda packages in steps.
func (r Resolved) StepsPlan(of Packages, known Solution) BuildPlan {
	out := BuildPlan{Field: of.inSteps.Field, names: of.conda.Naming(), shownFile: of.inSteps.text, condaFile: of.conda.Text()}
	for _, p := range of.inSteps.Parts {
		part := PlanPart{Images: p.Images, recipe: r.recipe("buildkit", of.inSteps, p, out.condaFile)}
		part.recipe.CondaOptions = of.conda.Options()
		part.lock, part.preface = known.inSteps(p.Platform)
		out.Parts = append(out.Parts, part)
	}
	return out
}

// PackagePlan returns the plan to assemble an image from Conda packages on a base image, or an environment
// without an image. The packages are those of a lock, or pending if it is nil.
func (r Resolved) PackagePlan(of Packages, lock *Locked, base digest.Digest) BuildPlan {
	out := BuildPlan{Field: of.after.Field, names: of.conda.Naming(), condaFile: of.conda.Text()}
	if lock == nil {
		out.MayBePrivate = !caller.Of(r.Caller).IsAnonymous()
	} else {
		out.MayBePrivate = lock.GetPrivate()
		out.names = out.names.In(lock.GetAnswer().GetLocks()[0].GetPackages())
	}
	for _, p := range of.after.Parts {
		part := PlanPart{Images: p.Images, recipe: r.recipe("conda", of.after, p, out.condaFile)}
		if r.IsEnvironment() {
			part.recipe.Format = FormatEnvironment
		} else {
			part.recipe.Source = &containerv1.Source{Registry: of.Base.Registry, Repository: of.Base.Repository, Reference: base.String()}
		}
		part.recipe.Mount, part.recipe.KeepPackages = r.Raw.GetMount(), r.KeepPackages
		part.recipe.CondaOptions, part.recipe.Variables = of.conda.Options(), of.conda.Environment.Variables
		query := of.LockQuery(p.Platform)
		if lock == nil {
			part.unsolved, part.recipe.QueryDigest = query, of.queryDigest(p.Platform)
		} else {
			part.lock, part.preface = lock.For(p.Platform)
			sum := sha256.Sum256([]byte(part.lock.GetRecords()[0]))
			part.recipe.LockDigest = hex.EncodeToString(sum[:])
		}
		if !of.conda.IsLocked() {
			part.solvedFrom = query
		}
		out.Parts = append(out.Parts, part)
	}
	return out
}

// recipe returns the recipe for workers of one platform.
func (r Resolved) recipe(engine string, file Dockerfile, p Part, condaFile string) *buildv1.Recipe {
	out := &buildv1.Recipe{
		Engine: engine, Format: "oci", Platform: platforms.Format(p.Platform), Compression: compressionOf(r.Raw),
		ContainerFile: file.text, Files: file.files, CondaFile: condaFile, SifBase: file.MayBeSif, Soci: r.Raw.GetSoci() && !r.IsSif(),
	}
	out.SociPrefetch = prefetchOf(r.Raw)
	if l := r.Raw.GetBuildContext(); l.GetLocation() != "" && file.text != "" {
		out.Context, out.ContextData = layerWithoutContent(l), r.Data.Context
	}
	if r.Raw.GetFreeze() {
		out.Config = r.Added()
	}
	return out
}
