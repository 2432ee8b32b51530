package registry

import (
	"context"

	"github.com/opencontainers/go-digest"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/policy/enforce"
)

// The container service applies the operator's rules to requests. Pulls apply those about images again:
// a rule may have been set after the name was issued, and a tag may have moved to another image.

// rules applies the rules to pulls.
type rules struct{ *enforce.Enforcer }

// check applies policy_registries to the image of a plan and to those that it includes. Images that a
// build has pushed were checked when it was requested.
func (r rules) check(ctx context.Context, plan *containerv1.Plan) error {
	if plan.GetBuildId() == "" {
		if err := r.Image(ctx, "", oci.ReferenceOf(plan.GetSource())); err != nil {
			return err
		}
	}
	for _, l := range plan.GetConfig().GetLayers() {
		if from := l.GetIncludedFrom(); from != nil && from.GetBuildId() == "" {
			if err := r.Image(ctx, "", oci.Reference{Registry: from.GetRegistry(), Repository: from.GetRepository()}); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkSigned applies policy_signatures to the image of an upstream digest. A token applies it once to
// each digest, until the plan of the token is read again.
func (r reader) checkSigned(ctx context.Context, tok *resolvedToken, root digest.Digest) error {
	image := oci.Reference{Registry: tok.repo.Host, Repository: tok.repo.Name, Digest: root}
	if tok.build != "" || tok.isPermitted(root) || !r.images.policy.MustBeSigned(image) {
		return nil
	}
	if err := r.images.policy.Signature(ctx, enforce.Image{Name: image, Digest: root, Access: r.access, Client: tok.identity.Client(ctx)}); err != nil {
		return err
	}
	tok.permit(root)
	return nil
}

// isPermitted reports whether permit was called for a digest.
func (tok *resolvedToken) isPermitted(root digest.Digest) bool {
	tok.mu.Lock()
	defer tok.mu.Unlock()
	return tok.permitted[root]
}

// permit records that the signature of a digest was verified.
func (tok *resolvedToken) permit(root digest.Digest) {
	tok.mu.Lock()
	defer tok.mu.Unlock()
	if tok.permitted == nil {
		tok.permitted = map[digest.Digest]bool{}
	}
	tok.permitted[root] = true
}
