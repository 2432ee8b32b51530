package inspect

import (
	"context"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/regclient/regclient/types/ref"

	inspectv1 "slipway.dev/proto/gen/slipway/inspect/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/internal/upstream"
)

// addReferrers adds what refers to the document that a name leads to, and to the image
// that was chosen of it. What exists only here has none.
func (l look) addReferrers(ctx context.Context, out *inspectv1.InspectImageResponse, root digest.Digest) error {
	subjects := []digest.Digest{root}
	if d := digest.Digest(out.GetContainer().GetDigest()); d != "" && d != root {
		subjects = append(subjects, d)
	}
	for _, d := range subjects {
		list, err := l.referrers(ctx, d)
		if err != nil {
			return err
		}
		out.Referrers = append(out.Referrers, list...)
	}
	return nil
}

// referrers lists what refers to a manifest (OCI distribution specification, "Listing
// Referrers"): at most limits.Referrers, none where the registry keeps no such lists.
func (l look) referrers(ctx context.Context, d digest.Digest) (out []*inspectv1.Descriptor, err error) {
	if _, ours := l.made[d]; ours {
		return nil, nil
	}
	image := l.image
	image.Tag, image.Digest = "", d
	subject, err := ref.New(image.String())
	if err != nil {
		return nil, fault.Invalid.New("containerImage is not a valid image name", err)
	}
	list, err := l.client.ReferrerList(upstream.WithPages(ctx), subject)
	if err != nil {
		return nil, l.fault(err)
	}
	for _, r := range list.Descriptors[:min(len(list.Descriptors), limits.Referrers)] {
		d := descriptorOf(ocispec.Descriptor{MediaType: r.MediaType, Digest: r.Digest, Size: r.Size, Annotations: r.Annotations})
		d.ArtifactType = rpc.Optional(r.ArtifactType)
		out = append(out, d)
	}
	return out, nil
}
