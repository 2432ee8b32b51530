package build

import (
	"context"
	"time"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/build/store"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sqldb"
)

// WorkerKeys lists and revokes the keys of workers for the command line, which accesses the
// database directly while a server may be running.
type WorkerKeys struct{ store store.Store }

// NewWorkerKeys returns the keys in a database that has the build service's tables.
func NewWorkerKeys(db *sqldb.DB) WorkerKeys { return WorkerKeys{store.New(db)} }

// WorkerKey is a key with which a worker signs records of the layers that it builds.
type WorkerKey struct {
	ID, Worker string
	// Certificate is the SHA-256 of the public key in the worker's certificate; "" for none.
	Certificate string
	Registered  time.Time
	Seen        time.Time // when it was registered last
	Revoked     time.Time // zero for a key that is valid
}

// List returns the keys, those seen last first.
func (w WorkerKeys) List(ctx context.Context) ([]WorkerKey, error) {
	keys, err := w.store.WorkerKeys(ctx, limits.WorkerKeys)
	if err != nil {
		return nil, w.store.Fault("listing workers' keys", err)
	}
	out := make([]WorkerKey, len(keys))
	for i, k := range keys {
		out[i] = WorkerKey{ID: k.ID, Worker: k.Worker, Certificate: k.Certificate, Registered: k.Registered, Seen: k.Seen, Revoked: k.Revoked}
	}
	return out, nil
}

// A WorkerImage is an image that a worker built, that has layers that it signed, or that was
// built from such an image.
type WorkerImage struct{ BuildID, Image, Digest string }

// revokedMessage is the message of builds whose images were discarded.
const revokedMessage = "The image was discarded, because a worker that built it, or an image or a layer in it, was revoked. " +
	"Repeat the container request to build it again"

// Revoke revokes the keys of a worker. It discards the images that the worker built or signed
// layers of, and all images that were built from these, and returns them. name is the name of
// a worker, or the certificate that it registered its keys with; workers with that
// certificate can no longer register keys or take jobs. Revoke returns fault.NotFound if name
// is neither.
func (w WorkerKeys) Revoke(ctx context.Context, name string, now time.Time) ([]WorkerImage, error) {
	images, known, err := w.store.RevokeWorker(ctx, name, revokedMessage, now)
	if err != nil {
		return nil, w.store.Fault("revoking a worker", err)
	}
	if !known {
		return nil, fault.NotFound.Newf("No worker and no worker's certificate is called %s; `slipwayd workers list` shows all", fault.Quote(name))
	}
	out := make([]WorkerImage, len(images))
	for i, image := range images {
		out[i] = WorkerImage{image.BuildID, image.Target, image.Digest}
	}
	return out, nil
}

// ListDiscardedBuilds implements buildv1.BuildServiceServer.
func (s *Service) ListDiscardedBuilds(ctx context.Context, req *buildv1.ListDiscardedBuildsRequest) (*buildv1.ListDiscardedBuildsResponse, error) {
	ids, err := s.store.Discarded(ctx, req.GetAfter(), limits.DiscardedBuilds)
	if err != nil {
		return nil, s.store.Fault("listing discarded builds", err)
	}
	return &buildv1.ListDiscardedBuildsResponse{BuildIds: ids}, nil
}
