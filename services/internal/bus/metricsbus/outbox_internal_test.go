package metricsbus

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metricsv1 "slipway.dev/proto/gen/slipway/metrics/v1"

	"slipway.dev/services/internal/testkit/bubble"
)

// A numberQueue is a queue of events whose days are consecutive numbers from 1.
type numberQueue struct {
	mu          sync.Mutex
	taken, last int32
}

func (q *numberQueue) add(n int32) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.last += n
}

func (q *numberQueue) Next(_ context.Context, most int) (*metricsv1.Batch, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	b := &metricsv1.Batch{Source: "s", First: int64(q.taken) + 1}
	for day := q.taken + 1; day <= q.last && len(b.GetEvents()) < most; day++ {
		b.Events = append(b.Events, &metricsv1.Event{Day: day})
	}
	return b, nil
}

func (q *numberQueue) Published(_ context.Context, b *metricsv1.Batch) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.taken += int32(len(b.GetEvents()))
	return nil
}

// A stream accepts batches by their ordinals, like the metrics service.
type stream struct {
	t *testing.T

	mu      sync.Mutex
	down    bool
	last    int64
	batches int
	at      time.Time // time of the last attempt
}

func (s *stream) publish(_ context.Context, b *metricsv1.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = time.Now()
	if b.GetFirst() > s.last+1 {
		s.t.Errorf("%d follows %d", b.GetFirst(), s.last)
	}
	s.batches++
	s.last = max(s.last, b.GetFirst()+int64(len(b.GetEvents()))-1)
	if s.down { // after the batch was accepted: the response was lost
		return errors.New("it is down")
	}
	return nil
}

// setDown makes publish return an error or succeed again.
func (s *stream) setDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

func outbox(t *testing.T, o Options) (*numberQueue, *stream, *bytes.Buffer, *Outbox) {
	t.Helper()
	var log bytes.Buffer
	o.Name, o.Log = "things", slog.New(slog.NewTextHandler(&log, nil))
	q, s := &numberQueue{}, &stream{t: t}
	return q, s, &log, &Outbox{Options: o, queue: q, publish: s.publish}
}

func TestOutbox(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		wake := make(chan struct{}, 1)
		q, s, _, o := outbox(t, Options{Wake: wake, Linger: time.Second})
		ctx, cancel := context.WithCancel(t.Context())
		go o.Run(ctx)
		q.add(2*BatchEvents + 10)
		synctest.Wait()
		if s.last != 2*BatchEvents+10 || s.batches != 3 {
			t.Errorf("it published up to %d in %d batches", s.last, s.batches)
		}
		q.add(5)
		wake <- struct{}{}
		synctest.Wait()
		if s.batches != 3 {
			t.Error("the outbox did not wait for further events")
		}
		q.add(5)
		bubble.Elapse(time.Second)
		if s.batches != 4 || s.last != 2*BatchEvents+20 {
			t.Errorf("then it published up to %d in %d batches", s.last, s.batches)
		}
		q.add(7)
		cancel()
		synctest.Wait()
		if s.last != 2*BatchEvents+27 {
			t.Error("the remaining events were not published at the end")
		}
	})
}

// TestOutboxPolls verifies that events are found without a value on Wake.
func TestOutboxPolls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, s, _, o := outbox(t, Options{Wake: make(chan struct{}), PollInterval: 5 * time.Second})
		ctx, cancel := context.WithCancel(t.Context())
		go o.Run(ctx)
		synctest.Wait()
		q.add(1)
		bubble.Elapse(5 * time.Second)
		if s.last != 1 {
			t.Error("the event was not published")
		}
		cancel()
	})
}

// TestOutboxRetries verifies that a batch is retried with increasing pauses, that the log
// has one message about it, and that Run ends in time.
func TestOutboxRetries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, s, log, o := outbox(t, Options{Wake: make(chan struct{})})
		s.down = true
		q.add(3)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { o.Run(ctx); close(ended) }()
		bubble.Elapse(time.Minute)
		s.mu.Lock()
		if s.batches < 30 || s.batches > 40 || time.Since(s.at) > longPause {
			t.Errorf("%d attempts in a minute, the last one %s ago", s.batches, time.Since(s.at))
		}
		s.mu.Unlock()
		s.setDown(false)
		bubble.Elapse(longPause)
		q.mu.Lock()
		if q.taken != 3 {
			t.Errorf("%d events are published", q.taken)
		}
		q.mu.Unlock()
		want := []string{"wait to be counted", "being counted again"}
		for _, w := range want {
			if n := strings.Count(log.String(), w); n != 1 {
				t.Errorf("the log has %q %d times", w, n)
			}
		}
		s.setDown(true)
		q.add(1)
		cancel()
		<-ended
	})
}
