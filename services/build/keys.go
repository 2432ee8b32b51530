package build

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/types/known/timestamppb"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/build/store"
	"slipway.dev/services/internal/bus/buildbus"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/rpc"
)

// Workers reuse layers that other workers built. Each record of a layer is signed with a key
// that its worker registered here, so that a record can be traced to a worker, and all
// records of a worker can be revoked.

// RegisterWorkerKey implements buildv1.WorkServiceServer.
func (s *Service) RegisterWorkerKey(ctx context.Context, req *buildv1.RegisterWorkerKeyRequest) (*buildv1.RegisterWorkerKeyResponse, error) {
	key := ed25519.PublicKey(req.GetPublicKey())
	if !isWorkerName(req.GetWorker()) || !buildbus.HasKey(key, req.GetWorker(), req.GetProof()) {
		return nil, fault.Invalid.Newf("The worker has no valid name, or has not proved that it has the private key")
	}
	if err := s.checkCertificate(ctx); err != nil {
		return nil, err
	}
	if err := s.mayStore(ctx, buildbus.KeyID(key)); err != nil {
		return nil, err
	}
	stored, err := s.store.PutWorkerKey(ctx, store.WorkerKey{
		ID: buildbus.KeyID(key), Worker: req.GetWorker(), Certificate: rpc.CertificateFrom(ctx), PublicKey: key, Seen: s.deps.Now(),
	})
	if err != nil {
		return nil, s.store.Fault("storing a worker's key", err)
	}
	if !stored {
		return nil, fault.Denied.Newf("The worker's key has been revoked; a worker makes a new key when it is restarted")
	}
	return &buildv1.RegisterWorkerKeyResponse{}, nil
}

// checkCertificate returns fault.Denied if the caller's certificate has been revoked.
func (s *Service) checkCertificate(ctx context.Context) error {
	barred, err := s.store.IsBarred(ctx, rpc.CertificateFrom(ctx))
	if err != nil {
		return s.store.Fault("looking up a worker's certificate", err)
	}
	if barred {
		return fault.Denied.Newf("The worker's certificate has been revoked; give the worker another one")
	}
	return nil
}

// mayStore returns fault.Exhausted for a new key if the maximum number of keys is stored.
// Stored keys can always be renewed.
func (s *Service) mayStore(ctx context.Context, id string) error {
	n, err := s.store.CountWorkerKeys(ctx)
	if err == nil && n >= limits.WorkerKeys {
		_, err = s.store.WorkerKey(ctx, id, time.Time{})
	}
	if errors.Is(err, fault.NotFound) {
		return fault.Exhausted.Newf("There are %d keys of workers, which is the limit; revoke those of workers that no longer exist (`slipwayd workers revoke NAME`), or try again when some have expired after conda_layer_memory", n)
	}
	if err != nil {
		return s.store.Fault("counting workers' keys", err)
	}
	return nil
}

// isWorkerName reports whether a name can be shown in a table and typed on a command line.
func isWorkerName(name string) bool {
	return name != "" && len(name) <= limits.WorkerName && utf8.ValidString(name) &&
		!strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) || r == ' ' })
}

// GetWorkerKey implements buildv1.WorkServiceServer.
func (s *Service) GetWorkerKey(ctx context.Context, req *buildv1.GetWorkerKeyRequest) (*buildv1.GetWorkerKeyResponse, error) {
	notBefore, seenAfter := s.keyTimes()
	public, err := s.store.WorkerKey(ctx, req.GetKeyId(), seenAfter)
	if errors.Is(err, fault.NotFound) {
		return nil, err
	}
	if err != nil {
		return nil, s.store.Fault("looking up a worker's key", err)
	}
	out := &buildv1.GetWorkerKeyResponse{PublicKey: public}
	if !notBefore.IsZero() {
		out.NotBefore = timestamppb.New(notBefore)
	}
	return out, nil
}

// keyTimes returns when signatures and keys expire: a signature that was made before
// notBefore, and a key that was last registered before seenAfter. Both are zero if nothing
// expires.
func (s *Service) keyTimes() (notBefore, seenAfter time.Time) {
	if s.deps.LayerMemory == 0 {
		return time.Time{}, time.Time{}
	}
	notBefore = s.deps.Now().Add(-s.deps.LayerMemory)
	return notBefore, notBefore.Add(-2 * limits.WorkerKeyRenewal)
}

// A recordCheck verifies records of layers for one call, and looks up each key once. It is
// safe for concurrent use.
type recordCheck struct {
	*Service
	known sync.Map // key id (string) to public key ([]byte), which is empty for an unknown key
}

// isValid reports whether a value in the claims bucket is a record that a valid key signed
// for name.
func (c *recordCheck) isValid(ctx context.Context, name string, raw []byte) (bool, error) {
	r, err := buildbus.ParseLayer(raw)
	if err != nil {
		return false, nil //nolint:nilerr // any client of NATS can write there
	}
	notBefore, seenAfter := c.keyTimes()
	found, known := c.known.Load(r.KeyID)
	public, _ := found.([]byte)
	if !known {
		public, err = c.store.WorkerKey(ctx, r.KeyID, seenAfter)
		if err != nil && !errors.Is(err, fault.NotFound) {
			return false, err
		}
		c.known.Store(r.KeyID, public)
	}
	return r.Verify(public, name, notBefore) == nil, nil
}

// requeueRevoked queues builds of revoked workers again, and fails builds that use discarded
// images.
func (s *Service) requeueRevoked(ctx context.Context) {
	again, failing, err := s.store.Revoked(ctx)
	for _, r := range again {
		if err == nil {
			err = s.queue.Remove(ctx, r)
		}
		if err == nil {
			err = s.store.ReleaseRevoked(ctx, r.ID)
		}
		wake(s.queued)
	}
	for _, r := range failing {
		if err == nil {
			err = s.failAnyway(ctx, r, store.ReasonRevoked, revokedMessage)
		}
	}
	if err != nil {
		s.logDispatchError(ctx, "Builds of revoked workers were not queued again", err)
	}
}

// forgetRevoked deletes the records of revoked keys from the claims bucket. Workers already
// ignore these records; deleting them lets other workers claim the layers.
func (s *Service) forgetRevoked(ctx context.Context) {
	revoked, err := s.store.RevokedKeys(ctx, limits.WorkerKeys)
	if err == nil && len(revoked) > 0 {
		err = s.forget(ctx, revoked)
	}
	if err != nil {
		s.logDispatchError(ctx, "Records of layers of revoked workers were not deleted", err)
	}
}

func (s *Service) forget(ctx context.Context, revoked []store.WorkerKey) error {
	signed := map[string]bool{}
	for _, k := range revoked {
		signed[k.ID] = true
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	deleted, err := s.deleteRecords(ctx, signed)
	if err != nil {
		return err
	}
	for _, k := range revoked {
		if err := s.store.MarkForgotten(ctx, k.ID); err != nil {
			return err
		}
	}
	s.deps.Log.InfoContext(ctx, "Layers of revoked workers were forgotten", "keys", len(revoked), "layers", deleted)
	return nil
}

// deleteRecords deletes the records in the claims bucket that any of the given keys signed.
func (s *Service) deleteRecords(ctx context.Context, signed map[string]bool) (deleted int, err error) {
	bucket, err := s.bus.KeyValue(ctx, buildbus.ClaimBucket)
	if err != nil {
		return 0, fmt.Errorf("looking for the bucket %s: %w", buildbus.ClaimBucket, err)
	}
	all, err := bucket.WatchAll(ctx, jetstream.IgnoreDeletes())
	if err != nil {
		return 0, fmt.Errorf("reading the bucket %s: %w", buildbus.ClaimBucket, err)
	}
	defer func() { _ = all.Stop() }()
	for {
		select {
		case <-ctx.Done():
			return deleted, ctx.Err()
		case e, ok := <-all.Updates():
			if !ok {
				return deleted, errors.New("the watch of the claims ended")
			}
			if e == nil { // all existing records were received
				return deleted, nil
			}
			r, err := buildbus.ParseLayer(e.Value())
			if err != nil || !signed[r.KeyID] {
				continue
			}
			if err := bucket.Delete(ctx, e.Key(), jetstream.LastRevision(e.Revision())); err != nil && !isOvertaken(err) {
				return deleted, fmt.Errorf("deleting the record of a layer: %w", err)
			}
			deleted++
		}
	}
}

// isOvertaken reports whether a key was written meanwhile, by a worker that builds the
// layer.
func isOvertaken(err error) bool {
	api := new(jetstream.APIError)
	return errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence
}

// keyID matches a buildbus.KeyID.
var keyID = regexp.MustCompile(`^[0-9a-f]{64}$`)

// noteLayers stores which keys signed the layers that a worker took from others, for
// `slipwayd workers revoke`.
func (s *Service) noteLayers(ctx context.Context, r *buildv1.Result) error {
	return s.store.PutLayerKeys(ctx, r.GetBuildId(), layerKeys(r))
}

// layerKeys returns the keys that signed layers which a worker took from others.
func layerKeys(r *buildv1.Result) []string {
	keys := slices.DeleteFunc(slices.Clone(r.GetLayerKeys()), func(id string) bool { return !keyID.MatchString(id) })
	return keys[:min(len(keys), limits.LayerMakers)]
}
