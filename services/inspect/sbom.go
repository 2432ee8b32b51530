package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"google.golang.org/protobuf/proto"

	inspectv1 "slipway.dev/proto/gen/slipway/inspect/v1"

	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/sbom"
)

// GetImageSBOM returns the bill of materials of an image for one platform.
func (s *Service) GetImageSBOM(ctx context.Context, req *inspectv1.GetImageSBOMRequest) (*inspectv1.GetImageSBOMResponse, error) {
	format, err := sbom.ParseFormat(req.GetFormat())
	if err != nil {
		return nil, err
	}
	image, platform, err := parseImage("image", req.GetImage(), req.GetPlatform())
	if err != nil {
		return nil, err
	}
	who, err := s.admit(ctx, &inspectv1.ImageQuery{PlatformWorkspaceId: req.WorkspaceId})
	if err != nil {
		return nil, err
	}
	l, all, err := s.variants(ctx, who, image, platform, imageOf)
	if err != nil {
		return nil, err
	}
	doc, err := s.packageReader(who, l).document(ctx, all[0], format)
	if err != nil {
		return nil, err
	}
	return &inspectv1.GetImageSBOMResponse{Document: proto.String(string(doc)), MediaType: proto.String(format.MediaType())}, nil
}

// document returns the bill of materials of a variant.
func (r *packageReader) document(ctx context.Context, v variant, format sbom.Format) ([]byte, error) {
	m, err := r.billOf(ctx, v)
	if err != nil {
		return nil, err
	}
	l := r.image
	if r.unread {
		m.Note = strings.TrimSpace(m.Note + " " + unreadNote)
	}
	m.Digest, m.Platform = v.digest, v.platform
	m.Created, _ = time.Parse(time.RFC3339, v.created) // zero if the config has no valid time
	if l.plan == nil {
		m.Repository = l.requested.Registry + "/" + l.requested.Repository
	} else {
		m.Name = cmp.Or(l.plan.GetName(), "image") // the issued name has a token
	}
	turn, err := r.service.listings.pool.Acquire(ctx, fairshare.Request{Client: r.who.Client(ctx), Class: fairshare.Short})
	if err != nil {
		return nil, err
	}
	defer turn.Release()
	doc, err := m.Document(format)
	if err != nil {
		return nil, fmt.Errorf("writing the bill of materials of %s: %w", v.digest, err)
	}
	if len(doc) > limits.SBOM {
		return nil, fault.Invalid.Newf("The bill of materials has more than %d MiB, so it is not returned", limits.SBOM>>20)
	}
	return doc, nil
}

// imageOf returns the entry of an index for a platform. If platform is nil, it is that for the default platform,
// or else the first image.
func imageOf(x ocispec.Index, platform *ocispec.Platform) ([]ocispec.Descriptor, error) {
	e, err := selectEntry(x, platform)
	if err != nil {
		return nil, err
	}
	if platform == nil && (e == nil || !isImage(*e)) {
		i := slices.IndexFunc(x.Manifests, isImage)
		if i < 0 {
			return nil, fault.NotFound.Newf("The image index has no images")
		}
		e = &x.Manifests[i]
	}
	return []ocispec.Descriptor{*e}, nil
}

// isImage reports whether an entry of an index is an image, and no attestation or other artifact.
func isImage(e ocispec.Descriptor) bool {
	return oci.IsManifest(e.MediaType) && !oci.IsArtifact(e) && (e.Platform == nil || e.Platform.OS != "unknown")
}

// billOf returns the components of a variant and a note on what they do not include. With a valid lock its
// layers are not read, since the lock describes them.
func (r *packageReader) billOf(ctx context.Context, v variant) (sbom.Image, error) {
	var b bill
	defer func() { r.gaps = append(r.gaps, b.gaps...) }()
	records, err := r.service.readLock(ctx, r.who, r.image, v, &r.locks)
	refusal, invalid := errors.AsType[*unknownPackages](err)
	switch {
	case err == nil:
		b.addLock(records, v)
	case !invalid:
		return sbom.Image{}, err
	case !refusal.noLock:
		b.noteRefusal(refusal)
	}
	found, err := r.contents(ctx, b.stackOf(v))
	refusal, invalid = errors.AsType[*unknownPackages](err)
	switch {
	case err == nil:
		b.addContents(found)
	case !invalid:
		return sbom.Image{}, err
	case b.locked == nil:
		return sbom.Image{}, fault.NotFound.New(refusal.reason, nil)
	default:
		b.gap("Only the packages of the lock are listed")
		b.noteRefusal(refusal)
		b.components = append(b.components, slices.Collect(maps.Values(b.locked))...)
	}
	return sbom.Image{Components: b.components, Note: b.notes()}, nil
}
