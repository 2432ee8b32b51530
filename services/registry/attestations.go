package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/regclient/regclient/types/descriptor"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
)

// attestationTTL is how long the statements about a manifest are cached. Statements that another
// key has signed are listed after this time.
const attestationTTL = 5 * time.Minute

// attestations are the signed statements about one manifest. The container service signs them when
// they are requested; they are served under the name of the image.
type attestations struct {
	until time.Time
	list  []descriptor.Descriptor
}

// An attachment is a manifest, config or layer of a signed statement.
type attachment struct {
	mediaType string
	content   []byte
}

// isManifest reports whether clients request the document as a manifest, as opposed to a blob.
func (a attachment) isManifest() bool { return oci.IsManifest(a.mediaType) || oci.IsIndex(a.mediaType) }

// attested returns the descriptors of the statements about a manifest of the image. There are none
// for a manifest that is only passed through. A cached list is used up to the given age.
func (r reader) attested(ctx context.Context, tok *resolvedToken, img *image, d digest.Digest, age time.Duration) ([]descriptor.Descriptor, error) {
	_, ours := img.generated[d]
	if !ours && tok.build == "" {
		return nil, nil
	}
	now := r.images.now()
	if known, ok := img.attestationsOf(d, now, age); ok {
		return known, nil
	}
	doc, err := r.document(ctx, img, d)
	if errors.Is(err, fault.NotFound) {
		return nil, nil // its registry has deleted it
	}
	if err != nil {
		return nil, err
	}
	if !oci.IsIndex(doc.MediaType) && !oci.IsManifest(doc.MediaType) {
		return nil, nil // a generated config
	}
	resp, err := r.images.attesting.Do(ctx, attesting{tok.token, d}, func(ctx context.Context) (*containerv1.ListAttestationsResponse, error) {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		return r.images.containers.ListAttestations(ctx, &containerv1.ListAttestationsRequest{
			Token: tok.token, Digest: d.String(), MediaType: doc.MediaType, Size: int64(len(doc.Bytes)),
		})
	})
	if errors.Is(err, fault.Unsupported) { // a container service of an earlier release
		resp, err = nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("signing the statements about %s: %w", d, err)
	}
	list, err := img.attach(d, resp.GetAttestations(), now.Add(attestationTTL))
	if len(list) > 0 {
		r.images.generated.Set(img.key, img) // the image has grown, and its weight with it
	}
	return list, err
}

// An attesting identifies a running call for the statements about a manifest.
type attesting struct {
	token  string
	digest digest.Digest
}

// attestationsOf returns the cached descriptors of the statements about a manifest, up to an age.
func (img *image) attestationsOf(d digest.Digest, now time.Time, age time.Duration) ([]descriptor.Descriptor, bool) {
	img.mu.Lock()
	defer img.mu.Unlock()
	known, ok := img.attestations[d]
	return known.list, ok && now.Before(known.until.Add(age-attestationTTL))
}

// attach caches the statements about a manifest, so that their documents can be requested by digest.
// Documents of earlier statements remain.
func (img *image) attach(d digest.Digest, all []*containerv1.Attestation, until time.Time) ([]descriptor.Descriptor, error) {
	out := attestations{until: until}
	documents := map[digest.Digest]attachment{ocispec.DescriptorEmptyJSON.Digest: {ocispec.MediaTypeEmptyJSON, ocispec.DescriptorEmptyJSON.Data}}
	for _, a := range all {
		var m ocispec.Manifest
		if err := json.Unmarshal(a.GetManifest(), &m); err != nil {
			return nil, err
		}
		at := digest.FromBytes(a.GetManifest())
		documents[at] = attachment{m.MediaType, a.GetManifest()}
		documents[digest.FromBytes(a.GetBundle())] = attachment{m.ArtifactType, a.GetBundle()}
		out.list = append(out.list, descriptor.Descriptor{
			MediaType: m.MediaType, ArtifactType: m.ArtifactType, Digest: at, Size: int64(len(a.GetManifest())), Annotations: m.Annotations,
		})
	}
	img.mu.Lock()
	defer img.mu.Unlock()
	if img.attestations == nil {
		img.attestations, img.attached = map[digest.Digest]attestations{}, map[digest.Digest]attachment{}
	}
	if len(img.attached)+len(documents) > limits.ImageAttachments {
		clear(img.attestations) // they are signed again, with the same bytes
		clear(img.attached)
	}
	img.attestations[d] = out
	if len(all) > 0 {
		for at, doc := range documents {
			img.attached[at] = doc
		}
	}
	return out.list, nil
}

// attachment returns a document of a signed statement.
func (img *image) attachment(d digest.Digest) (attachment, bool) {
	img.mu.Lock()
	defer img.mu.Unlock()
	doc, ok := img.attached[d]
	return doc, ok
}

// attachAll requests the statements about the image, its entries and its environments, unless they were requested a moment
// ago, so that a client may continue here with a digest that another replica has listed. Failures are only logged:
// the digest may belong to another image of the name.
func (r reader) attachAll(ctx context.Context, tok *resolvedToken, img *image) {
	subjects := []digest.Digest{img.root.Digest}
	for _, e := range img.entries {
		subjects = append(subjects, e.Digest)
	}
	img.mu.Lock()
	subjects = append(subjects, img.environments...)
	img.mu.Unlock()
	for _, d := range subjects[:min(len(subjects), limits.AttestedManifests)] {
		if _, err := r.attested(ctx, tok, img, d, limits.AttestationAge); err != nil {
			r.images.log.WarnContext(ctx, "The signed statements about an image are not available", "digest", d, "err", err)
			return
		}
	}
}

// attachIndex makes an index that was served under a tag available by digest.
func (img *image) attachIndex(doc oci.Document) {
	img.mu.Lock()
	defer img.mu.Unlock()
	if img.attached != nil && len(img.attached) < limits.ImageAttachments {
		img.attached[doc.Digest] = attachment{doc.MediaType, doc.Bytes}
	}
}
