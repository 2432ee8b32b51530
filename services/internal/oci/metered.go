package oci

import (
	"context"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// A meteredSource is a source that fails when the documents of one image exceed their total
// limit.
type meteredSource struct {
	Source
	left int
}

func (m *meteredSource) Manifest(ctx context.Context, d digest.Digest) (Document, error) {
	doc, err := m.Source.Manifest(ctx, d)
	if err != nil {
		return doc, err
	}
	return doc, m.take(len(doc.Bytes))
}

func (m *meteredSource) Config(ctx context.Context, d ocispec.Descriptor) ([]byte, error) {
	raw, err := m.Source.Config(ctx, d)
	if err != nil {
		return nil, err
	}
	return raw, m.take(len(raw))
}

func (m *meteredSource) take(n int) error {
	if m.left -= n; m.left < 0 {
		return fault.Invalid.Newf("The manifests and configs of the image are larger than %d MiB in total", limits.ImageDocuments>>20)
	}
	return nil
}
