package remote

import (
	"context"
	"errors"
	"time"

	"github.com/opencontainers/go-digest"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/retry"
	"slipway.dev/services/internal/upstream"
)

// Input returns the record of an image that a build has read with a login. The record is public, so it
// only names the image if the image can be read without a login.
func (d Deps) Input(ctx context.Context, repo upstream.Repository, image digest.Digest, login upstream.Login) *buildv1.Input {
	out := &buildv1.Input{Digest: image.String()}
	if login == (upstream.Login{}) || d.isPublic(ctx, repo, image) {
		out.Registry, out.Repository = repo.Host, repo.Name
	}
	return out
}

// publicTries is how often a registry that fails is asked whether it requires a login, with publicPause
// between the tries, each of at most publicWait.
const (
	publicTries = 3
	publicPause = 2 * time.Second
	publicWait  = 10 * time.Second
)

// isPublic reports whether an image can be read without a login. It returns false if that is not known.
func (d Deps) isPublic(ctx context.Context, repo upstream.Repository, image digest.Digest) bool {
	if d.Registries == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, limits.BuildInputsWait)
	defer cancel()
	for try := 1; ; try++ {
		within, cancel := context.WithTimeout(ctx, publicWait)
		_, err := d.Registries.Resolve(within, repo, image.String(), upstream.Access{})
		cancel()
		isAnswer := errors.Is(err, fault.Denied) || errors.Is(err, fault.Unauthenticated) || errors.Is(err, fault.NotFound)
		if err == nil || isAnswer || try == publicTries || !retry.Sleep(ctx, publicPause) {
			return err == nil
		}
	}
}

// Input returns the record of an image of the repository.
func (r *Repository) Input(ctx context.Context, image digest.Digest) *buildv1.Input {
	return r.Deps.Input(ctx, r.at, image, r.access.Login)
}
