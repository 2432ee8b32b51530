package build

import (
	"context"
	"errors"
	"strconv"
	"strings"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/build/store"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
)

// Annotations of every built image, by which recognise identifies its build.
const (
	annotationID     = "dev.slipway.build-id"
	annotationDigest = "dev.slipway.content-digest"
)

// recognise identifies the build of an image in the service's own repository by the image's
// annotations, and stores its record again if it was deleted. It returns nil if the image
// cannot be used, and fault.Conflict if it has other content. It changes no existing record:
// a pending build only ends with the report of its worker.
func (s *Service) recognise(ctx context.Context, doc oci.Document, req *buildv1.SubmitBuildRequest) (*buildv1.SubmitBuildResponse, error) {
	notes := oci.Annotations(doc)
	switch d := notes[annotationDigest]; {
	case d == "" || req.GetDryRun() && d == req.GetContentDigest():
		return nil, nil
	case d != req.GetContentDigest():
		return nil, anotherImage(req)
	}
	if discarded, err := s.store.IsDiscarded(ctx, store.Image(req.GetTarget())); err != nil {
		return nil, s.store.Fault("looking for discarded images", err)
	} else if discarded {
		return nil, nil // it is built again
	}
	now := s.deps.Now()
	r := &store.Record{
		Request: withoutData(req), Owner: owner(ctx, req), Created: now, Completed: now, Counted: store.NeverCounted,
		Succeeded: true, Digest: doc.Digest.String(),
	}
	n := numberOf(notes[annotationID], req.GetContentId())
	if n > 0 {
		r.Renumber(n)
		known, err := s.store.Get(ctx, r.ID)
		switch {
		case errors.Is(err, fault.NotFound):
			return s.storeFound(ctx, r)
		case err != nil:
			return nil, s.store.Fault("reading a build", err)
		case known.IsPending() && isSame(known, r):
			return nil, nil // its worker has not reported the result yet
		case known.Succeeded && isSame(known, r):
			return s.cached(known.ID), nil
		}
	}
	// Store the image as the result of a new build, if it does not name its build, or if that
	// build failed after the push or has another image.
	last, err := s.store.LastNumber(ctx, req.GetContentId())
	if err != nil {
		return nil, s.store.Fault("numbering a build", err)
	}
	r.Renumber(last + 1)
	return s.storeFound(ctx, r)
}

// isSame reports whether two builds have the same content, scope and target.
func isSame(a store.Record, b *store.Record) bool {
	return a.Request.GetContentDigest() == b.Request.GetContentDigest() && a.Request.GetScope() == b.Request.GetScope() &&
		store.Image(a.Request.GetTarget()) == store.Image(b.Request.GetTarget())
}

// storeFound stores the record of an existing image. It returns nil if the id was taken by
// another request meanwhile.
func (s *Service) storeFound(ctx context.Context, r *store.Record) (*buildv1.SubmitBuildResponse, error) {
	won, err := s.write(ctx, r)
	if err != nil {
		return nil, err
	}
	if won {
		return s.cached(r.ID), nil
	}
	known, err := s.store.Get(ctx, r.ID)
	if err == nil && known.Succeeded && isSame(known, r) {
		return s.cached(known.ID), nil // another request was faster
	}
	return nil, nil // SubmitBuild tries again
}

// numberOf returns the number in the id of a build of a content; 0 for any other string.
func numberOf(id, contentID string) int64 {
	number, ok := strings.CutPrefix(id, contentID+"_")
	n, err := strconv.ParseInt(number, 10, 64)
	if !ok || err != nil || !isID(id) || n >= store.MaxNumber {
		return 0
	}
	return n
}
