package request

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	condav1 "slipway.dev/proto/gen/slipway/conda/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
)

// CanBeDirect says whether the packages can be put together, once they are known.
func (r Request) CanBeDirect() bool { return r.Recipe.Packages != nil }

// WithoutSteps adds to the reason why nobody builds in steps what of a request for Conda
// packages needs it.
func (r Request) WithoutSteps(err error) error {
	why, ok := fault.As(err)
	if !ok || !errors.Is(err, fault.Unsupported) || r.Recipe.Steps == "" {
		return err
	}
	return fault.Unsupported.New(why.Public+". This request needs that because of "+r.Recipe.Steps+": without it, its packages are put into an image as they are", err)
}

// Directly is the request, once it is known which packages on which base image it
// stands for.
func (r Request) Directly(base digest.Digest) Request {
	recipe := *r.Recipe
	recipe.BaseDigest = base
	recipe.names = recipe.names.In(r.Foreseen.Solved.GetAnswer().GetLocks()[0].GetPackages())
	recipe.Parts = recipe.afterwards.parts
	r.Recipe = &recipe
	return r
}

// IsDirect says whether the packages are put together, and not installed in steps.
func (r Request) IsDirect() bool { return r.Recipe.BaseDigest != "" }

// DirectMessage is the recipe as workers get it.
func (r Request) DirectMessage(p ocispec.Platform, lock *condav1.SolvePackagesResponse) *buildv1.Recipe {
	sum := sha256.Sum256([]byte(lock.GetRecords()[0]))
	out := &buildv1.Recipe{
		Engine: "conda", Format: "oci", Platform: platforms.Format(p), CondaFile: r.Recipe.condaFile, LockDigest: hex.EncodeToString(sum[:]),
		Source:        &containerv1.Source{Registry: r.Recipe.Base.Registry, Repository: r.Recipe.Base.Repository, Reference: r.Recipe.BaseDigest.String()},
		ContainerFile: r.Recipe.afterwards.lines, Files: r.Recipe.afterwards.files, Compression: compressionOf(r.Raw),
		CondaOptions: r.Raw.GetPackages().GetCondaOpts(),
	}
	if l := r.Raw.GetBuildContext(); l.GetLocation() != "" && out.GetContainerFile() != "" {
		out.Context = layerWithoutContent(l)
	}
	if r.Raw.GetFreeze() {
		out.Config = r.Added()
	}
	return out
}

// LockIDs are what a request's lock is remembered under: for everybody, and for who
// reads channels with a login.
func (r Request) LockIDs(who caller.ID) (shared, own string) {
	w := digester{sha256.New()}
	w.text("slipway lock", templateVersion, r.Recipe.Base.String())
	for _, p := range r.Platforms {
		w.text(platforms.Format(p))
	}
	w.list(r.Recipe.Packages.GetChannels())
	w.list(r.Recipe.Packages.GetEntries())
	shared = hex.EncodeToString(w.Sum(nil))
	w.text(who.String())
	return shared, hex.EncodeToString(w.Sum(nil))
}
