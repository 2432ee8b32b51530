// Package claim has one of several workers make what all of them want: a
// layering.Claims in the bucket of buildbus.Claims, which says what was made for as long
// as the build room lets it. It keeps nothing of its own, and where NATS is away everybody
// makes everything, as without it.
package claim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"slipway.dev/services/builder/layering"
	"slipway.dev/services/internal/bus/buildbus"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/memo"
)

const (
	// renewal is how often a holder says that it is alive.
	renewal = limits.LayerSilence / 4
	// patience is how long NATS may take for one answer.
	patience = 2 * time.Second
	// notes is how often a worker says again what it has, and noted of how many layers it
	// knows that it did.
	notes = 12 * time.Hour
	noted = 50_000
)

// Claims are those of one worker. Make it with New; safe for concurrent use. The key of
// a layer whose holder is at work has an empty value, which no record is.
type Claims struct {
	// After is time.After; a test decides when a holder speaks, and when it was silent.
	After func(time.Duration) <-chan time.Time

	nc     *nats.Conn
	js     jetstream.JetStream
	log    *slog.Logger
	noted  *memo.Memo[string, struct{}]
	failed atomic.Bool

	mu     sync.Mutex
	bucket jetstream.KeyValue
}

// New asks nothing of NATS before the first claim.
func New(nc *nats.Conn, log *slog.Logger) (*Claims, error) {
	js, err := jetstream.New(nc)
	known := memo.New(&otter.Options[string, struct{}]{MaximumSize: noted, ExpiryCalculator: otter.ExpiryWriting[string, struct{}](notes)})
	return &Claims{nc: nc, js: js, log: log, noted: known, After: time.After}, err
}

// Take implements layering.Claims. A holder that was silent for limits.LayerSilence, by
// the clock of who waits, has lost its claim to the first who says so.
func (c *Claims) Take(ctx context.Context, name string, wait bool, usable func(record []byte) bool) (layering.Claim, bool, error) {
	claim, found, err := c.take(ctx, &attempt{name: name, wait: wait, usable: usable})
	switch {
	case err != nil && ctx.Err() == nil && !c.failed.Swap(true):
		c.log.Warn("Layers are not shared with other workers right now; each makes its own", "err", err)
	case err == nil:
		c.failed.Store(false)
	}
	if claim == nil { // not a layering.Claim that holds nil
		return nil, found, err
	}
	return claim, found, err
}

// Note implements layering.Claims. It does not wait for NATS.
func (c *Claims) Note(name string, record func() ([]byte, error)) {
	if c.noted.Has(name) {
		return
	}
	raw, err := record()
	if err == nil {
		err = c.nc.Publish(buildbus.Claim(name), raw)
	}
	if err == nil {
		c.noted.Set(name, struct{}{})
	}
}

// attempt is somebody who wants a claim.
type attempt struct {
	kv     jetstream.KeyValue
	name   string
	wait   bool
	usable func(record []byte) bool
	// late is when they have waited long enough.
	late <-chan time.Time
}

func (c *Claims) take(ctx context.Context, a *attempt) (h *holding, found bool, err error) {
	if a.kv, err = c.open(ctx); err != nil {
		return nil, false, err
	}
	a.late = c.After(limits.LayerWait)
	for ctx.Err() == nil {
		h, found, again, err := c.once(ctx, a)
		if !again {
			return h, found, err
		}
	}
	return nil, false, ctx.Err()
}

// once looks, waits while another holds the claim, and then takes it. again says that
// another was faster, or that there is something new to look at.
func (c *Claims) once(ctx context.Context, a *attempt) (h *holding, found, again bool, err error) {
	e, err := latest(ctx, a.kv, a.name)
	switch {
	case err != nil:
		return nil, false, false, err
	case e.isRecord() && a.usable(e.value):
		return nil, true, false, nil
	case e.isClaim() && !a.wait:
		return nil, false, false, nil
	case e.isClaim():
		if e.revision, err = c.await(ctx, a.kv, a.name, a.late); err != nil || e.revision == 0 {
			return nil, false, err == nil, err
		}
	}
	h, err = c.hold(ctx, a.kv, a.name, e.revision)
	return h, false, h == nil && err == nil, err
}

// open finds the bucket, which the build room makes.
func (c *Claims) open(ctx context.Context) (jetstream.KeyValue, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bucket != nil {
		return c.bucket, nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	kv, err := c.js.KeyValue(ctx, buildbus.ClaimBucket)
	if err != nil {
		return nil, fmt.Errorf("looking for the bucket %s: %w", buildbus.ClaimBucket, err)
	}
	c.bucket = kv
	return kv, nil
}

// entry is what a key says; the zero value is nothing.
type entry struct {
	revision uint64
	value    []byte
}

// isClaim says that somebody makes the layer, isRecord that it was made.
func (e entry) isClaim() bool  { return e.revision > 0 && len(e.value) == 0 }
func (e entry) isRecord() bool { return e.revision > 0 && len(e.value) > 0 }

func latest(ctx context.Context, kv jetstream.KeyValue, name string) (entry, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	e, err := kv.Get(ctx, name)
	if errors.Is(err, jetstream.ErrKeyNotFound) { // or it was released
		return entry{}, nil
	}
	if err != nil {
		return entry{}, fmt.Errorf("reading a claim: %w", err)
	}
	return entry{e.Revision(), e.Value()}, nil
}

// await waits until there is something else than a claim, then it answers 0; or until
// its holder was silent, then the revision of its last word.
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
			return 0, fmt.Errorf("another worker has been making a layer for %s", limits.LayerWait)
		case <-silence:
			if last == 0 {
				return 0, errors.New("NATS is silent")
			}
			return last, nil
		case e, ok := <-watch.Updates():
			switch {
			case !ok:
				return 0, errors.New("the watch of a claim ended")
			case e == nil && last == 0: // that was all, and there was nothing
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

// hold takes a claim on top of a revision, 0 where there is none; nil where another was
// faster.
func (c *Claims) hold(ctx context.Context, kv jetstream.KeyValue, name string, on uint64) (*holding, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	put := func() (uint64, error) { return kv.Update(ctx, name, nil, on) }
	if on == 0 {
		put = func() (uint64, error) { return kv.Create(ctx, name, nil) }
	}
	revision, err := put()
	if overtaken(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("claiming a layer: %w", err)
	}
	h := &holding{kv: kv, name: name, revision: revision, end: make(chan struct{}), ended: make(chan struct{})}
	h.kept = func() { c.noted.Set(name, struct{}{}) }
	go h.renew(c.After)
	return h, nil
}

// overtaken says whether a key was written by another meanwhile.
func overtaken(err error) bool {
	api := new(jetstream.APIError)
	return errors.Is(err, jetstream.ErrKeyExists) || errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence
}
