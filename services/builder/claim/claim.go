// Package claim coordinates workers, so that each layer is built by only one of them. It
// implements layering.Claims in the bucket of buildbus.Claims, which holds the records of
// built layers for as long as the build service configures. It stores nothing of its own.
// If NATS or the build service is unavailable, each worker builds all of its layers.
//
// Any client of NATS can write to the bucket. So a worker signs its records with a key that
// it generates at startup and registers with the build service. It only uses records that
// were signed for this layer and repository by a key that is still valid there.
package claim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/conda/packages/layering"
	"slipway.dev/services/internal/bus/buildbus"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/memo"
)

const (
	// renewal is how often a holder renews its claim.
	renewal = limits.LayerSilence / 4
	// natsTimeout is the timeout of one NATS request.
	natsTimeout = 2 * time.Second
	// noteInterval is the time after which a worker records again that it has a layer.
	// noted is the number of layers for which it remembers that it recorded them.
	noteInterval = 12 * time.Hour
	noted        = 50_000
)

// Options are the dependencies of Claims. All are required.
type Options struct {
	NATS *nats.Conn
	Work buildv1.WorkServiceClient
	// Worker is the worker's name, as in its builds.
	Worker string
	Log    *slog.Logger
	Now    func() time.Time
}

// Claims coordinates one worker with the others. Create it with New; it is safe for
// concurrent use. While a layer is being built, its key in the bucket has an empty value,
// which is not a record.
type Claims struct {
	// After is time.After. Tests replace it to control renewals and timeouts.
	After func(time.Duration) <-chan time.Time

	nc     *nats.Conn
	js     jetstream.JetStream
	log    *slog.Logger
	signer *signer
	keys   *keys
	noted  *memo.Memo[string, struct{}]
	failed atomic.Bool

	mu     sync.Mutex
	bucket jetstream.KeyValue
}

// New generates a key for the worker. It calls neither NATS nor the build service.
func New(o Options) (*Claims, error) {
	js, err := jetstream.New(o.NATS)
	if err != nil {
		return nil, err
	}
	s, err := newSigner(o)
	if err != nil {
		return nil, err
	}
	known := memo.New(memo.Options[string, struct{}]{Most: noted, Age: noteInterval})
	return &Claims{nc: o.NATS, js: js, log: o.Log, signer: s, keys: newKeys(o), noted: known, After: time.After}, nil
}

// Acquire implements layering.Claims. A holder that was silent for limits.LayerSilence, by the
// clock of a waiting worker, loses its claim to the first such worker.
func (c *Claims) Acquire(ctx context.Context, name string, wait bool, usable func(record []byte, key string) bool) (layering.Claim, bool, error) {
	claim, found, err := c.take(ctx, &attempt{name: name, wait: wait, usable: usable})
	c.logOutage(ctx, err)
	if claim == nil { // return a nil interface, not one that holds a nil pointer
		return nil, found, err
	}
	return claim, found, err
}

// logOutage logs the first of several failures in a row.
func (c *Claims) logOutage(ctx context.Context, err error) {
	switch {
	case err != nil && ctx.Err() == nil && !c.failed.Swap(true):
		c.log.Warn("Layers are not shared with other workers right now; each builds its own", "err", err)
	case err == nil:
		c.failed.Store(false)
	}
}

// Note implements layering.Claims. It does not wait for NATS.
func (c *Claims) Note(ctx context.Context, name string, record func() ([]byte, error)) {
	if c.noted.Has(name) {
		return
	}
	content, err := record()
	if err != nil {
		return
	}
	if err = c.signer.register(ctx); err == nil {
		err = c.nc.Publish(buildbus.Claim(name), c.signer.sign(name, content))
	}
	if err == nil {
		c.noted.Set(name, struct{}{})
	}
	c.logOutage(ctx, err)
}

// An attempt is one call of Acquire.
type attempt struct {
	kv     jetstream.KeyValue
	name   string
	wait   bool
	usable func(record []byte, key string) bool
	// late fires when the attempt has waited long enough.
	late <-chan time.Time
}

func (c *Claims) take(ctx context.Context, a *attempt) (h *holding, found bool, err error) {
	if a.kv, err = c.open(ctx); err != nil {
		return nil, false, err
	}
	if err := c.signer.register(ctx); err != nil { // no worker would use a layer with an unregistered key
		return nil, false, err
	}
	a.late = c.After(limits.LayerWait)
	for ctx.Err() == nil {
		h, found, again, err := c.try(ctx, a)
		if !again {
			return h, found, err
		}
	}
	return nil, false, ctx.Err()
}

// try reads the key, waits while another worker holds the claim, and then claims it. The
// result again is true if another worker was faster, or if the key has a new value to read.
func (c *Claims) try(ctx context.Context, a *attempt) (h *holding, found, again bool, err error) {
	e, err := latest(ctx, a.kv, a.name)
	switch {
	case err != nil:
		return nil, false, false, err
	case e.isRecord():
		usable, err := c.isUsable(ctx, a, e.value)
		if err != nil || usable {
			return nil, usable, false, err
		}
	case e.isClaim() && !a.wait:
		return nil, false, false, nil
	case e.isClaim():
		if e.revision, err = c.await(ctx, a.kv, a.name, a.late); err != nil || e.revision == 0 {
			return nil, false, err == nil, err
		}
	}
	h, err = c.tryClaim(ctx, a.kv, a.name, e.revision)
	return h, false, h == nil && err == nil, err
}

// isUsable reports whether value is a record that was signed with a valid key and that the
// attempt can use. Any other value is replaced by a claim.
func (c *Claims) isUsable(ctx context.Context, a *attempt, value []byte) (bool, error) {
	r, err := c.keys.verified(ctx, a.name, value)
	if errors.Is(err, errNotSigned) {
		c.log.Warn("The record of a layer was not signed by a worker that is registered now; the layer is built here", "layer", a.name, "key", r.KeyID, "err", err)
		return false, nil
	}
	return err == nil && a.usable(r.Content, r.KeyID), err
}

// open returns the bucket, which the build service creates.
func (c *Claims) open(ctx context.Context) (jetstream.KeyValue, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bucket != nil {
		return c.bucket, nil
	}
	ctx, cancel := context.WithTimeout(ctx, natsTimeout)
	defer cancel()
	kv, err := c.js.KeyValue(ctx, buildbus.ClaimBucket)
	if err != nil {
		return nil, fmt.Errorf("looking for the bucket %s: %w", buildbus.ClaimBucket, err)
	}
	c.bucket = kv
	return kv, nil
}

// An entry is the value of a key. The zero value is a missing key.
type entry struct {
	revision uint64
	value    []byte
}

// isClaim reports whether a worker is building the layer, and isRecord whether it was
// built.
func (e entry) isClaim() bool  { return e.revision > 0 && len(e.value) == 0 }
func (e entry) isRecord() bool { return e.revision > 0 && len(e.value) > 0 }

func latest(ctx context.Context, kv jetstream.KeyValue, name string) (entry, error) {
	ctx, cancel := context.WithTimeout(ctx, natsTimeout)
	defer cancel()
	e, err := kv.Get(ctx, name)
	if errors.Is(err, jetstream.ErrKeyNotFound) { // or the claim was released
		return entry{}, nil
	}
	if err != nil {
		return entry{}, fmt.Errorf("reading a claim: %w", err)
	}
	return entry{e.Revision(), e.Value()}, nil
}

// await waits until the key holds something other than a claim, and returns 0. If the
// holder falls silent, it returns the revision of the last renewal.
func (c *Claims) await(ctx context.Context, kv jetstream.KeyValue, name string, late <-chan time.Time) (uint64, error) {
	watch, err := kv.Watch(ctx, name)
	if err != nil {
		return 0, fmt.Errorf("watching a claim: %w", err)
	}
	defer func() { _ = watch.Stop() }()
	var last uint64
	for silence := c.After(limits.LayerSilence); ; {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-late:
			return 0, fmt.Errorf("another worker has been building a layer for %s", limits.LayerWait)
		case <-silence:
			if last == 0 {
				return 0, errors.New("NATS does not respond")
			}
			return last, nil
		case e, ok := <-watch.Updates():
			switch {
			case !ok:
				return 0, errors.New("the watch of a claim ended")
			case e == nil && last == 0: // the watch has delivered all values, and the key is missing
				return 0, nil
			case e == nil:
				continue
			case e.Operation() != jetstream.KeyValuePut || len(e.Value()) > 0:
				return 0, nil
			}
			last, silence = e.Revision(), c.After(limits.LayerSilence)
		}
	}
}

// tryClaim claims the key. The argument on is its last revision, or 0 if the key is missing.
// tryClaim returns nil if another worker was faster.
func (c *Claims) tryClaim(ctx context.Context, kv jetstream.KeyValue, name string, on uint64) (*holding, error) {
	ctx, cancel := context.WithTimeout(ctx, natsTimeout)
	defer cancel()
	put := func() (uint64, error) { return kv.Update(ctx, name, nil, on) }
	if on == 0 {
		put = func() (uint64, error) { return kv.Create(ctx, name, nil) }
	}
	revision, err := put()
	if isConflict(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("claiming a layer: %w", err)
	}
	h := &holding{kv: kv, name: name, revision: revision, sign: c.signer.sign, end: make(chan struct{}), ended: make(chan struct{})}
	h.kept = func() { c.noted.Set(name, struct{}{}) }
	go h.renew(c.After)
	return h, nil
}

// isConflict reports whether another worker has written the key in the meantime.
func isConflict(err error) bool {
	api := new(jetstream.APIError)
	return errors.Is(err, jetstream.ErrKeyExists) || errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence
}
