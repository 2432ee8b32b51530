package build

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/regclient/regclient/types/descriptor"
	"github.com/regclient/regclient/types/manifest"
	"github.com/regclient/regclient/types/ref"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/build/engine"
	"slipway.dev/services/build/store"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/upstream"
)

// isIndex reports whether a build creates an index of the images of other builds.
func isIndex(r *buildv1.SubmitBuildRequest) bool { return r.GetRecipe().GetEngine() == engine.Index }

// closeIndexes completes the indexes whose parts have ended. Two replicas may do the same,
// since the bytes are the same.
func (s *Service) closeIndexes(ctx context.Context) {
	open, err := s.store.OpenIndexes(ctx)
	if err != nil {
		s.logDispatchError(ctx, "Indexes cannot be read", err)
		return
	}
	for _, r := range open {
		if err := s.closeIndex(ctx, r); err != nil {
			s.logDispatchError(ctx, "An index cannot be created right now", err)
		}
	}
}

func (s *Service) closeIndex(ctx context.Context, r store.Record) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	parts, err := s.succeededParts(ctx, r)
	if parts == nil || err != nil {
		return err
	}
	index, err := s.pushIndex(ctx, r, parts)
	if errors.Is(err, fault.Unavailable) || errors.Is(err, fault.Timeout) {
		return err // retried later
	}
	if e, ok := fault.As(err); ok {
		return s.fail(ctx, r, reasonPush, e.Public)
	}
	if err != nil {
		return err
	}
	chunk := &buildv1.LogChunk{}
	for _, p := range parts {
		chunk.Entries = append(chunk.Entries, &buildv1.LogEntry{
			Text:   fmt.Sprintf("%s: %s, built by %s", p.Request.GetRecipe().GetPlatform(), p.Digest, p.ID),
			TimeMs: s.deps.Now().UnixMilli(),
		})
	}
	if err := s.store.PutLog(ctx, r.ID, 1, chunk); err != nil {
		return err
	}
	return s.finish(ctx, &buildv1.Result{BuildId: r.ID, Succeeded: true, Digest: index.Digest.String()})
}

func (s *Service) pushIndex(ctx context.Context, r store.Record, parts []store.Record) (oci.Document, error) {
	t := r.Request.GetTarget()
	access, err := s.deps.Keychain.BuildAccess(ctx, caller.Of(r.Request.GetIdentity()), t.GetRegistry(), t.GetRepository())
	if err != nil {
		return oci.Document{}, err
	}
	var images []oci.Part
	for _, p := range parts {
		from := p.Request.GetTarget()
		repo := upstream.Repository{Host: from.GetRegistry(), Name: from.GetRepository()}
		doc, err := s.deps.Upstream.Manifest(ctx, repo, p.Digest, access)
		if err != nil {
			return oci.Document{}, err
		}
		platform, err := oci.ParsePlatform(p.Request.GetRecipe().GetPlatform())
		if err != nil {
			return oci.Document{}, err
		}
		images = append(images, oci.Part{Image: doc, Platform: platform})
	}
	annotations := map[string]string{annotationID: r.ID, annotationDigest: r.Request.GetContentDigest()}
	if s.isKept(t) { // it must have the same digest when it is made again
		delete(annotations, annotationID)
	}
	index, err := oci.NewIndex(images, annotations)
	if err != nil {
		return index, err
	}
	name, err := ref.New(store.Image(t))
	if err != nil {
		return index, err
	}
	m, err := manifest.New(manifest.WithRaw(index.Bytes), manifest.WithDesc(descriptor.Descriptor{
		MediaType: index.MediaType, Digest: index.Digest, Size: int64(len(index.Bytes)),
	}))
	if err != nil {
		return index, err
	}
	err = s.deps.Control.For(access, t.GetRegistry()).ManifestPut(ctx, name, m)
	return index, upstream.ControlFault(t.GetRegistry(), err)
}

// isKept reports whether a target is in the repository of kept images.
func (s *Service) isKept(t *buildv1.Target) bool {
	return oci.IsKeptRepository(t.GetRepository()) && s.deps.Keychain.IsBuildRepository(t.GetRegistry(), t.GetRepository())
}
