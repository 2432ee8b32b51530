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

// Annotations of every image that is built, by which it is known again.
const (
	annotationID     = "dev.slipway.build-id"
	annotationDigest = "dev.slipway.content-digest"
)

// recognise knows an image in the service's own repository by its annotations,
// though no record of it is left, and writes the record again. It changes no other
// record: a build ends by what its worker says.
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
			return nil, nil // its worker has not said yet how it ended
		case known.Succeeded && isSame(known, r):
			return s.cached(known.ID), nil
		}
	}
	// What says nothing of its build is the same whichever it was; and the image of a
	// build that failed afterwards is as good as any.
	last, err := s.store.LastNumber(ctx, req.GetContentId())
	if err != nil {
		return nil, s.store.Fault("numbering a build", err)
	}
	r.Renumber(last + 1)
	return s.storeFound(ctx, r)
}

// isSame says whether two builds are of one image.
func isSame(a store.Record, b *store.Record) bool {
	return a.Request.GetContentDigest() == b.Request.GetContentDigest() && a.Request.GetScope() == b.Request.GetScope() &&
		store.Image(a.Request.GetTarget()) == store.Image(b.Request.GetTarget())
}

// storeFound writes the record of an image that is there.
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
	return nil, nil // it is looked for again
}

// numberOf is the number in a build's id of one content; 0 for any other text.
func numberOf(id, contentID string) int64 {
	number, ok := strings.CutPrefix(id, contentID+"_")
	n, err := strconv.ParseInt(number, 10, 64)
	if !ok || err != nil || !isID(id) || n > store.MaxNumber {
		return 0
	}
	return n
}
