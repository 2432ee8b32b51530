package container

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/opencontainers/go-digest"
	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/container/request"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/internal/upstream"
	"slipway.dev/services/mount/environment"
)

// statusCompleted is the status of an environment that exists, as of a build that has ended.
const statusCompleted = "COMPLETED"

// GetEnvironment returns the environment of a lock (gateway/contract/container-service.md#environments-of-locks):
// the newest that exists, otherwise the newest that is being made. It only finds environments of which the caller
// could get a name with NameContainer.
func (s *Service) GetEnvironment(ctx context.Context, req *containerv1.GetEnvironmentRequest) (*containerv1.GetEnvironmentResponse, error) {
	who, err := s.reader(ctx, req.GetWorkspaceId())
	if err != nil {
		return nil, err
	}
	lock := digest.NewDigestFromEncoded(digest.SHA256, strings.TrimPrefix(req.GetLockDigest(), "sha256:"))
	if lock.Validate() != nil {
		return nil, fault.Invalid.Newf("lockDigest: %s is not the SHA-256 of a lock: 64 hex digits, with or without sha256: before them", fault.Quote(req.GetLockDigest()))
	}
	if s.deps.Build == nil {
		return nil, errNoBuilds()
	}
	scope := "" // what requests without a user have made for themselves is not shown
	if who != nil {
		scope = request.ScopeOf(caller.Of(who))
	}
	found, err := s.deps.Build.FindEnvironments(ctx, &buildv1.FindEnvironmentsRequest{LockDigest: lock.Encoded(), Scope: scope})
	if err != nil {
		return nil, err
	}
	for _, id := range found.GetBuildIds() {
		out, err := s.environmentOf(ctx, id, who)
		switch {
		case errors.Is(err, fault.NotFound), errors.Is(err, fault.Denied), errors.Is(err, fault.Unauthenticated):
			continue // deleted, or not for the caller
		case err != nil:
			return nil, err
		}
		out.LockDigest = proto.String(lock.String())
		return out, nil
	}
	return nil, fault.NotFound.Newf("No environment of this lock exists or is being made: request it with POST /v1alpha2/container and format environment")
}

// environmentOf returns the environment of a build. It returns fault.NotFound if the build has failed or the artifact
// was deleted, and fault.Denied if the caller may not use it.
func (s *Service) environmentOf(ctx context.Context, id string, who *platformv1.Identity) (*containerv1.GetEnvironmentResponse, error) {
	b, err := s.locate(ctx, id)
	if err != nil {
		return nil, err
	}
	if err := checkScope(b, who); err != nil {
		return nil, err
	}
	if err := s.authorizeInputs(ctx, id, b, who); err != nil {
		return nil, err
	}
	out := &containerv1.GetEnvironmentResponse{Status: proto.String(statusPending), BuildId: proto.String(id), Platform: rpc.Optional(b.GetPlatform())}
	if b.GetState() != buildv1.BuildState_BUILD_STATE_SUCCEEDED {
		return out, nil
	}
	out.Status = proto.String(statusCompleted)
	return out, s.addArtifact(ctx, out, b, who)
}

// addArtifact adds the parts of the artifact that a build has made. The lookup marks it as used in the image store.
func (s *Service) addArtifact(ctx context.Context, out *containerv1.GetEnvironmentResponse, b *buildv1.LocateBuildResponse, who *platformv1.Identity) error {
	t := b.GetTarget()
	access, err := s.deps.Keychain.BuildAccess(ctx, caller.Of(who), t.GetRegistry(), t.GetRepository())
	if err != nil {
		return err
	}
	repo := upstream.Repository{Host: t.GetRegistry(), Name: t.GetRepository()}
	manifest, err := s.deps.Upstream.Manifest(ctx, repo, b.GetEnvironment(), access)
	if err != nil {
		return err
	}
	artifact, err := environment.Parse(manifest.Bytes)
	if err != nil {
		return fmt.Errorf("reading %s: %w", b.GetEnvironment(), err)
	}
	raw, err := s.deps.Upstream.Config(ctx, repo, artifact.Config, access)
	if err != nil {
		return err
	}
	config, err := environment.ParseConfig(raw)
	if err != nil {
		return fmt.Errorf("reading the config of %s: %w", b.GetEnvironment(), err)
	}
	if len(config.Packages) > limits.MountPackages {
		return fmt.Errorf("the environment %s has %d packages", b.GetEnvironment(), len(config.Packages))
	}
	out.Digest = proto.String(manifest.Digest.String())
	out.Index = &containerv1.EnvironmentIndex{
		Digest: proto.String(artifact.Index.Digest.String()), Size: proto.Float64(float64(artifact.Index.Size)), MediaType: proto.String(artifact.Index.MediaType),
	}
	for _, p := range config.Packages {
		blob, ok := artifact.Blobs[p.Blob]
		if !ok {
			return fmt.Errorf("the environment %s has no layer of the package %s", b.GetEnvironment(), fault.Quote(p.Name))
		}
		out.Packages = append(out.Packages, &containerv1.EnvironmentPackage{
			Name: proto.String(p.Name), Digest: proto.String(blob.Digest.String()), Size: proto.Float64(float64(blob.Size)),
		})
	}
	return nil
}
