package registry

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/regclient/regclient/types/descriptor"
	"github.com/regclient/regclient/types/ref"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/upstream"
)

// referrers lists the manifests that refer to a manifest of the image, such as signatures
// and SBOMs. Generated manifests have none; upstream manifests have upstream's.
func (s *Registry) referrers(w http.ResponseWriter, r *http.Request, p path, tok *resolvedToken) error {
	d, err := parseDigest(p.ref)
	if err != nil {
		return invalidDigest(p.ref)
	}
	src, err := s.images.reader(r.Context(), tok)
	if err != nil {
		return err
	}
	img, err := s.find(r.Context(), tok, src, func(img *image) bool { return img.leadsTo(d) })
	if err != nil {
		return err
	}
	list := []descriptor.Descriptor{}
	if img != nil {
		if _, ours := img.generated[d]; !ours {
			if list, err = src.referrers(r.Context(), d); err != nil {
				return err
			}
			img.addReferrers(list)
		}
	}
	if want := r.URL.Query().Get("artifactType"); want != "" {
		list = filter(list, want)
		w.Header().Set("Oci-Filters-Applied", "artifactType")
	}
	body, err := json.Marshal(struct {
		SchemaVersion int                     `json:"schemaVersion"`
		MediaType     string                  `json:"mediaType"`
		Manifests     []descriptor.Descriptor `json:"manifests"`
	}{2, ocispec.MediaTypeImageIndex, list})
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, ocispec.MediaTypeImageIndex, body)
	return nil
}

func filter(list []descriptor.Descriptor, artifactType string) []descriptor.Descriptor {
	out := []descriptor.Descriptor{}
	for _, d := range list {
		if d.ArtifactType == artifactType {
			out = append(out, d)
		}
	}
	return out
}

// addReferrers records that the client may request these referrers.
func (img *image) addReferrers(list []descriptor.Descriptor) {
	digests := make([]digest.Digest, len(list))
	for i, d := range list {
		digests[i] = d.Digest
	}
	img.addManifests(digests)
}

// referrers queries the referrers API of the upstream registry or, if it has none, the
// fallback tag.
func (r reader) referrers(ctx context.Context, d digest.Digest) ([]descriptor.Descriptor, error) {
	subject, err := ref.New(oci.Reference{Registry: r.repo.Host, Repository: r.repo.Name, Digest: d}.String())
	if err != nil {
		return nil, err
	}
	list, err := r.images.control.For(r.access, r.repo.Host).ReferrerList(upstream.WithPages(ctx), subject)
	if err != nil {
		return nil, r.access.Explain(upstream.ControlFault(r.repo.Host, err))
	}
	if list.Descriptors == nil {
		return []descriptor.Descriptor{}, nil
	}
	return list.Descriptors[:min(len(list.Descriptors), limits.Referrers)], nil
}
