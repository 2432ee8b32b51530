package registry

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/regclient/regclient/types/descriptor"
	"github.com/regclient/regclient/types/ref"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/pullthrough"
	"slipway.dev/services/internal/upstream"
)

// referrers lists the manifests that refer to a manifest of the image, such as signatures
// and SBOMs.
func (s *Registry) referrers(w http.ResponseWriter, r *http.Request, p path, tok *resolvedToken) error {
	d, err := parseDigest(p.ref)
	if err != nil {
		return invalidDigest(p.ref)
	}
	_, list, err := s.listReferrers(r.Context(), tok, d)
	if err != nil {
		return err
	}
	if want := r.URL.Query().Get("artifactType"); want != "" {
		list = filter(list, want)
		w.Header().Set("Oci-Filters-Applied", "artifactType")
	}
	body, err := referrerIndex(list)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, ocispec.MediaTypeImageIndex, body)
	return nil
}

// listReferrers returns the referrers of a manifest of the image: those of its registry, which
// generated manifests do not have, and the statements that this service signs.
func (s *Registry) listReferrers(ctx context.Context, tok *resolvedToken, d digest.Digest) (*image, []descriptor.Descriptor, error) {
	list := []descriptor.Descriptor{}
	src, err := s.images.reader(ctx, tok)
	if err != nil {
		return nil, nil, err
	}
	img, err := s.find(ctx, tok, src, func(img *image) bool { return img.leadsTo(d) })
	if img == nil || err != nil {
		return nil, list, err
	}
	if _, isAttachment := img.attachment(d); isAttachment {
		return img, list, nil
	}
	if _, ours := img.generated[d]; !ours {
		if list, err = src.referrers(ctx, d); err != nil {
			return nil, nil, err
		}
		img.addReferrers(list)
	}
	attested, err := src.attested(ctx, tok, img, d, attestationTTL)
	if err != nil {
		return nil, nil, err
	}
	return img, slices.Concat(list[:min(len(list), limits.Referrers-len(attested))], attested), nil
}

// referrerIndex returns a list of referrers as an image index.
func referrerIndex(list []descriptor.Descriptor) ([]byte, error) {
	if list == nil {
		list = []descriptor.Descriptor{} // not null
	}
	return json.Marshal(struct {
		SchemaVersion int                     `json:"schemaVersion"`
		MediaType     string                  `json:"mediaType"`
		Manifests     []descriptor.Descriptor `json:"manifests"`
	}{2, ocispec.MediaTypeImageIndex, list})
}

// referrersTag returns the digest in a tag of the fallback for registries without the referrers
// API (OCI distribution specification, "Referrers Tag Schema").
func referrersTag(tag string) (digest.Digest, bool) {
	sum, ok := strings.CutPrefix(tag, "sha256-")
	if !ok {
		return "", false
	}
	d := digest.NewDigestFromEncoded(digest.SHA256, sum)
	return d, d.Validate() == nil
}

// readReferrersTag returns the list of referrers as an index, for clients that request the tag of
// the fallback. It returns MANIFEST_UNKNOWN if there are none.
func (s *Registry) readReferrersTag(ctx context.Context, tok *resolvedToken, tag string, d digest.Digest) (pullthrough.Document, error) {
	img, list, err := s.listReferrers(ctx, tok, d)
	if err != nil {
		return pullthrough.Document{}, err
	}
	if len(list) == 0 {
		return pullthrough.Document{}, unknownManifest("Nothing refers to the manifest of the tag " + tag)
	}
	body, err := referrerIndex(list)
	doc := oci.NewDocument(ocispec.MediaTypeImageIndex, body)
	img.attachIndex(doc)
	return pullthrough.Document{Document: doc}, err
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
