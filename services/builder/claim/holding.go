package claim

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// A holding is a claim that is renewed until it ends.
type holding struct {
	kv   jetstream.KeyValue
	name string
	// revision is the revision of the last renewal, and 0 once the claim is lost. Only
	// renew uses it until ended is closed.
	revision uint64
	// sign signs a record for a name.
	sign func(name string, record []byte) []byte
	// kept is called when a record was stored.
	kept       func()
	try        sync.Once
	end, ended chan struct{}
}

// renew renews the claim until it ends. A worker that has lost its claim continues to build
// the layer, and writes no more.
func (h *holding) renew(after func(time.Duration) <-chan time.Time) {
	defer close(h.ended)
	for h.revision > 0 {
		select {
		case <-h.end:
			return
		case <-after(renewal):
			h.put(nil)
		}
	}
}

// put writes a value on top of the last revision. Errors are ignored: a renewal is
// repeated, and without a record another worker builds the layer.
func (h *holding) put(value []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), natsTimeout)
	defer cancel()
	revision, err := h.kv.Update(ctx, h.name, value, h.revision)
	switch {
	case err == nil:
		h.revision = revision
	case isConflict(err):
		h.revision = 0
	}
}

// Keep implements layering.Claim.
func (h *holding) Keep(record []byte) {
	h.finish(func() {
		if h.put(h.sign(h.name, record)); h.revision > 0 {
			h.kept()
		}
	})
}

// Release implements layering.Claim.
func (h *holding) Release() {
	h.finish(func() {
		ctx, cancel := context.WithTimeout(context.Background(), natsTimeout)
		defer cancel()
		// A claim that cannot be released expires after limits.LayerSilence.
		_ = h.kv.Delete(ctx, h.name, jetstream.LastRevision(h.revision))
	})
}

func (h *holding) finish(say func()) {
	h.try.Do(func() {
		close(h.end)
		<-h.ended
		if h.revision > 0 {
			say()
		}
	})
}
