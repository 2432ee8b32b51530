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

// addReferrers adds the referrers of the root document and of the selected image to a response.
// Generated documents have none.
func (l imageReader) addReferrers(ctx context.Context, out *inspectv1.InspectImageResponse, root digest.Digest) error {
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

// referrers returns the referrers of a manifest (OCI distribution specification, "Listing
// Referrers"), at most limits.Referrers. It returns none if the registry does not support
// referrers.
func (l imageReader) referrers(ctx context.Context, d digest.Digest) (out []*inspectv1.Descriptor, err error) {
	if _, ours := l.generated[d]; ours {
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
