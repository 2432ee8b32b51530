package oci

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/fault"
)

// CompanionOf is the annotation of an entry of an index, for example of a SOCI index, with the
// digest of the image manifest that the entry belongs to.
const CompanionOf = "com.amazon.soci.image-manifest-digest"

// Annotate returns the manifest of an image with additional annotations, as an OCI manifest.
// Equal input gives equal bytes. It returns fault.Invalid if the manifest is malformed or is
// not that of a container image.
func Annotate(doc Document, notes map[string]string) (Document, error) {
	m, err := ParseManifest(doc)
	if err != nil {
		return Document{}, err
	}
	if t := m.Config.MediaType; !IsConfig(t) {
		return Document{}, fault.Invalid.Newf("%s is not a container image (its config is of type %q)", doc.Digest, fault.Quote(t))
	}
	all := map[string]string{}
	maps.Copy(all, m.Annotations)
	maps.Copy(all, notes)
	raw, err := annotate(doc.Bytes, all)
	if err != nil {
		return Document{}, malformed(doc, err)
	}
	return NewDocument(ocispec.MediaTypeImageManifest, raw), nil
}

func annotate(manifest []byte, notes map[string]string) ([]byte, error) {
	o, err := parseObject(manifest)
	if err != nil {
		return nil, err
	}
	config, err := parseObject(o.get("config"))
	if err != nil {
		return nil, err
	}
	if err := config.set("mediaType", ocispec.MediaTypeImageConfig); err != nil {
		return nil, err
	}
	for _, m := range []struct {
		key   string
		value any
	}{{"mediaType", ocispec.MediaTypeImageManifest}, {"config", config}, {"annotations", notes}} {
		if err := o.set(m.key, m.value); err != nil {
			return nil, err
		}
	}
	return o.MarshalJSON()
}

// Accompany returns an index of an image and of a companion, an artifact that belongs to the
// image. The root is the image's manifest for a platform, or an OCI index that lists it. In the
// result manifest replaces it. Equal input gives equal bytes. It returns fault.Invalid if a
// document is malformed, or if the root does not list an image with the digest old.
func Accompany(root Document, old digest.Digest, platform ocispec.Platform, manifest Document, companion ocispec.Descriptor) (Document, error) {
	notes := map[string]string{}
	maps.Copy(notes, companion.Annotations)
	notes[CompanionOf] = manifest.Digest.String()
	companion.Platform, companion.Annotations = &platform, notes
	if IsIndex(root.MediaType) {
		x, err := ParseIndex(root)
		if err != nil {
			return Document{}, err
		}
		at := slices.IndexFunc(x.Manifests, func(e ocispec.Descriptor) bool { return e.Digest == old && e.MediaType == manifest.MediaType })
		if at < 0 || root.MediaType != ocispec.MediaTypeImageIndex {
			return Document{}, fault.Invalid.Newf("%s is not an OCI index that lists %s", root.Digest, old)
		}
		return replaceEntries(root, map[int]Document{at: manifest}, companion)
	}
	m, err := ParseManifest(manifest)
	if err != nil {
		return Document{}, err
	}
	raw, err := json.Marshal(ocispec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex,
		Manifests: []ocispec.Descriptor{
			{MediaType: manifest.MediaType, Digest: manifest.Digest, Size: int64(len(manifest.Bytes)), Annotations: m.Annotations, Platform: &platform},
			companion,
		},
	})
	if err != nil {
		return Document{}, fmt.Errorf("encoding an index: %w", err)
	}
	return NewDocument(ocispec.MediaTypeImageIndex, raw), nil
}

// follow changes the entries of an index that belong to images whose digests have changed.
func follow(list []json.RawMessage, renamed map[digest.Digest]digest.Digest) error {
	for i, raw := range list {
		if !bytes.Contains(raw, []byte(CompanionOf)) {
			continue
		}
		desc, err := parseObject(raw)
		if err != nil {
			return err
		}
		notes, err := parseObject(desc.get("annotations"))
		if err != nil {
			continue // the entry has no annotations that refer to an image
		}
		var of digest.Digest
		if json.Unmarshal(notes.get(CompanionOf), &of) != nil || renamed[of] == "" {
			continue
		}
		if err := notes.set(CompanionOf, renamed[of]); err != nil {
			return err
		}
		if err := desc.set("annotations", notes); err != nil {
			return err
		}
		if list[i], err = desc.MarshalJSON(); err != nil {
			return err
		}
	}
	return nil
}
