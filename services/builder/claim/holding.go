package claim

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// holding is a claim that is renewed until it ends.
type holding struct {
	kv   jetstream.KeyValue
	name string
	// revision is that of the holder's last word; 0 once the claim is lost. It is renew's
	// until ended.
	revision uint64
	// kept is called when a record was left.
	kept       func()
	once       sync.Once
	end, ended chan struct{}
}

// renew says now and then that the holder is alive. One who has lost its claim goes on
// with what it makes, and says no more.
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

// put writes a value on top of the last; what cannot be written now is written later,
// or never missed.
func (h *holding) put(value []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	revision, err := h.kv.Update(ctx, h.name, value, h.revision)
	switch {
	case err == nil:
		h.revision = revision
	case overtaken(err):
		h.revision = 0
	}
}

// Keep implements layering.Claim.
func (h *holding) Keep(record []byte) {
	h.finish(func() {
		if h.put(record); h.revision > 0 {
			h.kept()
		}
	})
}

// Release implements layering.Claim.
func (h *holding) Release() {
	h.finish(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		// What cannot be released now is taken over when it has been silent.
		_ = h.kv.Delete(ctx, h.name, jetstream.LastRevision(h.revision))
	})
}

func (h *holding) finish(say func()) {
	h.once.Do(func() {
		close(h.end)
		<-h.ended
		if h.revision > 0 {
			say()
		}
	})
}
