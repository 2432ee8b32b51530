package claim

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"sync"
	"time"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/internal/bus/buildbus"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/memo"
)

// A signer signs the records of one worker with a key that only exists in memory.
type signer struct {
	Options
	key ed25519.PrivateKey

	mu         sync.Mutex
	registered time.Time
}

func newSigner(o Options) (*signer, error) {
	_, key, err := ed25519.GenerateKey(nil)
	return &signer{Options: o, key: key}, err
}

// register registers the key with the build service, unless that was done recently.
func (s *signer) register(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.Now()
	if !s.registered.IsZero() && now.Sub(s.registered) < limits.WorkerKeyRenewal {
		return nil
	}
	public, _ := s.key.Public().(ed25519.PublicKey)
	ctx, cancel := context.WithTimeout(ctx, natsTimeout)
	defer cancel()
	_, err := s.Work.RegisterWorkerKey(ctx, &buildv1.RegisterWorkerKeyRequest{
		Worker: s.Worker, PublicKey: public, Proof: buildbus.ProveKey(s.key, s.Worker),
	})
	if err != nil {
		return fmt.Errorf("registering the worker's key with the build service: %w", err)
	}
	s.registered = now
	return nil
}

func (s *signer) sign(name string, record []byte) []byte {
	return buildbus.SignLayer(s.key, name, s.Now(), record)
}

// keys caches the keys of all workers, as the build service returns them.
type keys struct {
	work  buildv1.WorkServiceClient
	known *memo.Memo[string, validKey]
}

// A validKey is a key that was valid when it was fetched. Signatures from before notBefore
// are invalid.
type validKey struct {
	public    ed25519.PublicKey
	notBefore time.Time
}

func newKeys(o Options) *keys {
	return &keys{work: o.Work, known: memo.New(memo.Options[string, validKey]{
		Most: limits.WorkerKeys, Age: limits.WorkerKeyLease,
	})}
}

// errNotSigned is returned for a value that was not signed for its layer and repository
// with a key that is registered, not revoked and not expired.
var errNotSigned = errors.New("there is no valid signature of a registered worker")

// verified parses a record and verifies its signature. It returns errNotSigned for a record
// that must not be used. Any other error means that the build service did not respond.
func (k *keys) verified(ctx context.Context, name string, value []byte) (buildbus.LayerRecord, error) {
	r, err := buildbus.ParseLayer(value)
	if err != nil {
		return r, fmt.Errorf("%w: %w", errNotSigned, err)
	}
	key, err := k.known.Get(ctx, r.KeyID, func(ctx context.Context) (validKey, error) { return k.fetch(ctx, r.KeyID) })
	if errors.Is(err, fault.NotFound) {
		return r, fmt.Errorf("%w: %w", errNotSigned, err)
	}
	if err != nil {
		return r, err
	}
	if err := r.Verify(key.public, name, key.notBefore); err != nil {
		return r, fmt.Errorf("%w: %w", errNotSigned, err)
	}
	return r, nil
}

func (k *keys) fetch(ctx context.Context, id string) (validKey, error) {
	ctx, cancel := context.WithTimeout(ctx, natsTimeout)
	defer cancel()
	got, err := k.work.GetWorkerKey(ctx, &buildv1.GetWorkerKeyRequest{KeyId: id})
	if err != nil {
		return validKey{}, fmt.Errorf("looking up a worker's key: %w", err)
	}
	out := validKey{public: got.GetPublicKey()}
	if got.GetNotBefore() != nil {
		out.notBefore = got.GetNotBefore().AsTime()
	}
	return out, nil
}
