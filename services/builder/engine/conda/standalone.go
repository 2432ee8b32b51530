package conda

import (
	"context"
	"fmt"
	"strings"

	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/conda/packages/layering"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
)

// formatEnvironment is the format of recipes for an environment without an image.
const formatEnvironment = "environment"

// isStandalone reports whether a job makes an environment that is only mounted, without an image and its layers.
func isStandalone(job jobs.Job) bool { return job.Recipe.GetFormat() == formatEnvironment }

// compression returns that of the packages.
func (e *environment) compression() layering.Compression {
	if isStandalone(e.job) {
		return layering.Mounted
	}
	return layersOf(e.job.Recipe.GetCompression())
}

// parts returns the word for what packages become.
func (e *environment) parts() string {
	if isStandalone(e.job) {
		return "blobs to mount"
	}
	return "layers"
}

// makeStandalone pushes the environment of packages, which are blobs.
func (e *environment) makeStandalone(ctx context.Context, m *layering.Builder, packages []layering.Package, left remainder) (string, error) {
	if left.why != "" {
		return "", jobs.Build.Failure(left.why+". The steps add files that are in no package, so that the environment cannot be mounted; request an image, without format environment", nil)
	}
	a, err := e.standalone(ctx, m, packages)
	if err != nil {
		return "", err
	}
	to := &repository{Target: e.to}
	isAlone := !e.job.Recipe.GetKeepPackages()
	e.out.Print("push", fmt.Sprintf("Pushing the environment of %d packages to %s", len(packages), e.job.Image()))
	if err := e.pushBlobs(ctx, m, to, &mountable{a, packages}, isAlone); err != nil {
		return "", err
	}
	if !isAlone { // it gets its name last, so that every environment with a name has its packages
		if err := e.pushKept(ctx, to, a.Manifest); err != nil {
			return "", err
		}
		if err := to.Manifest(ctx, a.Manifest, true); err != nil {
			return "", e.to.Failed(ctx, "The environment could not be pushed", err)
		}
	}
	e.index(ctx, packages)
	return a.Manifest.Digest.String(), nil
}

// standalone returns the artifact of packages, which are blobs.
func (e *environment) standalone(ctx context.Context, m *layering.Builder, packages []layering.Package) (layering.Mountable, error) {
	platform, err := oci.ParsePlatform(e.job.Recipe.GetPlatform())
	if err != nil {
		return layering.Mountable{}, err
	}
	packagesOnly, _ := spec.Split(e.records)
	a, err := m.Standalone(ctx, layering.Environment{
		Platform: platform, Title: fault.Clip(strings.Join(rootPackages(e.records), " "), titleBytes), Specs: rootPackages(packagesOnly), Records: e.records, Packages: packages,
		Variables: e.job.Recipe.GetVariables(),
	})
	if err != nil && e.to != nil {
		return a, e.notMountable(ctx, err)
	}
	if err != nil {
		return a, asFailure(err)
	}
	if len(a.NotRun) > 0 {
		e.out.Print("", "The environment does not set the variables of these activation scripts: "+strings.Join(a.NotRun, ", "))
	}
	return a, nil
}
