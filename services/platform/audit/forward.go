package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/encoding/protojson"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/retry"
	"slipway.dev/services/internal/sink"
	"slipway.dev/services/platform/api"
)

// Times of a Forwarder.
const (
	// sinkLease is how long a process may write without extending its lease. It is longer than a
	// write, so that two processes do not write at the same time.
	sinkLease = limits.AuditSinkTime + 60*time.Second
	// sinkPoll is how often new events are looked up, and sinkClaim how often a process without
	// the lease tries to get it.
	sinkPoll  = time.Second
	sinkClaim = 5 * time.Second
	// sinkPause is the maximum pause after a failed write.
	sinkPause = 30 * time.Second
	// sinkLate is the age above which an event should have been written.
	sinkLate = 10 * time.Minute
)

// A Forwarder writes every event of the trail to a sink, in order and at least once. Of several
// processes with one database, one at a time writes. Create it with NewForwarder.
type Forwarder struct {
	log     Log
	target  sink.Target
	store   sinkStore
	outage  *retry.Outage
	errors  *slog.Logger
	reading int // the maximum number of events that are read at a time

	created bool // the row exists
	// until is the end of the lease; zero without the lease. at is the newest written event.
	until time.Time
	at    int64
	// unsaved is progress that could not be stored yet.
	unsaved *progress
}

// progress is a successful write: the newest written event before and after it, and how many
// events between them were deleted before.
type progress struct{ from, to, lost int64 }

// NewForwarder returns a Forwarder. It logs outages, and registers the metrics if metrics is not
// nil.
func NewForwarder(l Log, target sink.Target, log *slog.Logger, metrics prometheus.Registerer) *Forwarder {
	f := &Forwarder{
		log: l, target: target, store: sinkStore{l.DB, api.NewTextID(22)}, errors: log, reading: limits.AuditSinkBatch,
		outage: &retry.Outage{Log: log, Fails: "Audit events cannot be written to audit_sink; they wait in the database", Works: "Audit events are written to audit_sink again"},
	}
	if metrics != nil {
		metrics.MustRegister(sinkMetrics{f})
	}
	return f
}

// errNotHeld is returned while another process has the lease.
var errNotHeld = errors.New("another process writes to the sink")

// Run writes events until ctx ends, and then releases the lease.
func (f *Forwarder) Run(ctx context.Context) {
	defer f.end(ctx)
	failures := 0
	for ctx.Err() == nil {
		n, err := f.step(ctx)
		var pause time.Duration
		switch {
		case errors.Is(err, errNotHeld):
			failures, pause = 0, sinkClaim
		case err != nil:
			f.outage.Failed(ctx, err, "sink", f.target.String())
			pause = min(sinkPoll<<min(failures, 10), sinkPause)
			failures++
		case n == f.reading: // there may be more
			failures = 0
		default:
			f.outage.Succeeded(ctx)
			failures, pause = 0, sinkPoll
		}
		retry.Sleep(ctx, pause)
	}
}

// end stores the progress and releases the lease.
func (f *Forwarder) end(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_ = f.save(ctx)          // otherwise these events are repeated
	_ = f.store.release(ctx) // otherwise the lease expires
	f.until = time.Time{}
}

// step writes the next events and returns their number.
func (f *Forwarder) step(ctx context.Context) (int, error) {
	if err := f.hold(ctx); err != nil {
		return 0, err
	}
	events, err := f.store.after(ctx, f.at, f.reading)
	if err != nil || len(events) == 0 {
		return 0, err
	}
	records := make([]sink.Record, len(events))
	for i, e := range events {
		if records[i], err = f.encode(ctx, e); err != nil {
			return 0, err
		}
	}
	n, failure := f.target.Write(ctx, records)
	if n > 0 {
		f.unsaved = &progress{from: f.at, to: events[n-1].Sequence, lost: events[0].Sequence - f.at - 1}
		f.at = f.unsaved.to
		if f.unsaved.lost > 0 {
			f.errors.ErrorContext(ctx, "Audit events were deleted before audit_sink accepted them", "events", f.unsaved.lost, "before", events[0].Sequence)
		}
		// The events are written, also if ctx is done.
		saving, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if err := f.save(saving); err != nil {
			return n, errors.Join(failure, err)
		}
	}
	if failure == nil || ctx.Err() != nil {
		return n, failure
	}
	f.until = time.Time{}
	return n, errors.Join(failure, f.store.failed(ctx, bounded(failure.Error()), f.log.Now()))
}

// hold ensures that this process has the lease for longer than a write takes, and that at is the
// stored progress.
func (f *Forwarder) hold(ctx context.Context) error {
	now := f.log.Now()
	if f.unsaved == nil && f.until.Sub(now) > sinkLease*2/3 {
		return nil
	}
	if !f.created {
		if err := f.store.create(ctx); err != nil {
			return err
		}
		f.created = true
	}
	at, ok, err := f.store.claim(ctx, now, now.Add(sinkLease))
	if err != nil {
		return err
	}
	if !ok {
		f.until, f.unsaved = time.Time{}, nil
		return errNotHeld
	}
	f.until = now.Add(sinkLease)
	if f.unsaved == nil || f.unsaved.from != at {
		f.at, f.unsaved = at, nil
		return nil
	}
	return f.save(ctx)
}

// save stores progress that is not stored yet.
func (f *Forwarder) save(ctx context.Context) error {
	if f.unsaved == nil {
		return nil
	}
	ok, err := f.store.written(ctx, *f.unsaved)
	if err != nil {
		return fmt.Errorf("storing how far the audit trail was written: %w", err)
	}
	f.unsaved = nil
	if !ok {
		f.until = time.Time{}
		return errNotHeld
	}
	return nil
}

// encode returns an event in the JSON of REST. An event whose values cannot be decoded is written
// without them, so that it does not delay later events.
func (f *Forwarder) encode(ctx context.Context, r Record) (sink.Record, error) {
	e, err := r.toProto()
	if err != nil {
		f.errors.ErrorContext(ctx, "An audit event is written to audit_sink without its values", "event", r.Sequence, "err", err)
		r.Before, r.After = "", ""
		if e, err = r.toProto(); err != nil {
			return sink.Record{}, err
		}
	}
	raw, err := protojson.MarshalOptions{EmitUnpopulated: true}.Marshal(e)
	if err != nil {
		return sink.Record{}, fmt.Errorf("encoding the audit event %d: %w", r.Sequence, err)
	}
	var line bytes.Buffer
	if err := json.Compact(&line, raw); err != nil {
		return sink.Record{}, fmt.Errorf("encoding the audit event %d: %w", r.Sequence, err)
	}
	return sink.Record{Line: line.Bytes(), At: r.At, ID: r.Action, Warning: r.Refused}, nil
}

// Check returns an error if events wait because writes fail, or because no process writes.
func (f *Forwarder) Check(ctx context.Context) error {
	s, err := f.log.SinkState(ctx)
	if err != nil {
		return err
	}
	return s.Err(f.log.Now())
}

// Err returns an error if the last write failed, or if events wait and no process writes them. A
// process that writes the events of many years may take minutes.
func (s SinkState) Err(now time.Time) error {
	switch {
	case s.Waiting == 0:
		return nil
	case s.Problem != "":
		return fmt.Errorf("audit_sink has not accepted %d events since %s: %s", s.Waiting, s.Failing.UTC().Format(time.RFC3339), s.Problem)
	case now.Sub(s.Oldest) > sinkLate && now.Sub(s.Claimed) > sinkLease:
		return fmt.Errorf("%d events wait for audit_sink, the first since %s, and no process writes them", s.Waiting, s.Oldest.UTC().Format(time.RFC3339))
	}
	return nil
}
