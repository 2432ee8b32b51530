package build

import (
	"context"
	"errors"
	"strconv"
	"strings"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

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
	now := s.deps.Now()
	r := &record{
		request: withoutData(req), owner: owner(ctx, req), created: now, completed: now, counted: neverCounted,
		succeeded: true, digest: doc.Digest.String(),
	}
	n := numberOf(notes[annotationID], req.GetContentId())
	if n > 0 {
		r.renumber(n)
		known, err := s.store.get(ctx, r.id)
		switch {
		case errors.Is(err, fault.NotFound):
			return s.remember(ctx, r)
		case err != nil:
			return nil, s.deps.DB.Fault("reading a build", err)
		case known.isPending() && isSame(known, r):
			return nil, nil // its worker has not said yet how it ended
		case known.succeeded && isSame(known, r):
			return s.cached(known.id), nil
		}
	}
	// What says nothing of its build is the same whichever it was; and the image of a
	// build that failed afterwards is as good as any.
	last, err := s.store.lastNumber(ctx, req.GetContentId())
	if err != nil {
		return nil, s.deps.DB.Fault("numbering a build", err)
	}
	r.renumber(last + 1)
	return s.remember(ctx, r)
}

// isSame says whether two builds are of one image.
func isSame(a record, b *record) bool {
	return a.request.GetContentDigest() == b.request.GetContentDigest() && a.request.GetScope() == b.request.GetScope() &&
		image(a.request.GetTarget()) == image(b.request.GetTarget())
}

// remember writes the record of an image that is there.
func (s *Service) remember(ctx context.Context, r *record) (*buildv1.SubmitBuildResponse, error) {
	won, err := s.write(ctx, r)
	if err != nil {
		return nil, err
	}
	if won {
		return s.cached(r.id), nil
	}
	known, err := s.store.get(ctx, r.id)
	if err == nil && known.succeeded && isSame(known, r) {
		return s.cached(known.id), nil // another request was faster
	}
	return nil, nil // it is looked for again
}

// numberOf is the number in a build's id of one content; 0 for any other text.
func numberOf(id, contentID string) int64 {
	number, ok := strings.CutPrefix(id, contentID+"_")
	n, err := strconv.ParseInt(number, 10, 64)
	if !ok || err != nil || !isID(id) || n > maxNumber {
		return 0
	}
	return n
}
