package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
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
	// sinkLease is how long a process may write without extending its lease. After a process was
	// killed, no process writes until its lease ends.
	sinkLease = limits.AuditSinkTime + 60*time.Second
	// sinkMargin is how long before the end of the lease a write ends.
	sinkMargin = 20 * time.Second
	// sinkPoll is how often new events are looked up, and sinkClaim how often a process without
	// the lease tries to get it.
	sinkPoll  = time.Second
	sinkClaim = 5 * time.Second
	// sinkPause is the maximum pause after a failure, and sinkUnconfirmed that after a write which
	// the receiver may have accepted, so that events are not repeated often.
	sinkPause       = 30 * time.Second
	sinkUnconfirmed = 5 * time.Minute
	// sinkSave is the timeout of storing the progress, a failure or the end.
	sinkSave = 2 * time.Second
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
	logger  *slog.Logger
	reading int // the maximum number of events that are written at a time
	// size is the number of events that are written next: fewer after a failure, for a slow
	// receiver.
	size     int
	failures int // since the last success

	created bool // the row exists
	works   bool // the row has no problem of this process
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
		log: l, target: target, store: sinkStore{l.DB, api.NewTextID(22)}, logger: log, reading: limits.AuditSinkBatch, size: limits.AuditSinkBatch,
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
	for ctx.Err() == nil {
		size := f.next()
		n, err := f.step(ctx)
		var pause time.Duration
		switch {
		case errors.Is(err, errNotHeld):
			pause = sinkClaim
		case err != nil:
			f.outage.Failed(ctx, err, "sink", f.target.String())
			pause = f.pause(err)
		case n < size: // there are no more
			f.outage.Succeeded(ctx)
			pause = sinkPoll
		}
		retry.Sleep(ctx, pause)
	}
}

// pause returns how long to wait after an error.
func (f *Forwarder) pause(err error) time.Duration {
	limit := sinkPause
	if errors.Is(err, sink.ErrUnconfirmed) {
		limit = sinkUnconfirmed
	}
	return min(sinkPoll<<min(max(f.failures-1, 0), 10), limit)
}

// end stores the progress and releases the lease.
func (f *Forwarder) end(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sinkSave)
	defer cancel()
	_ = f.save(ctx)          // otherwise these events are repeated
	_ = f.store.release(ctx) // otherwise the lease expires
	f.until = time.Time{}
}

// next returns the maximum number of events that the next step writes.
func (f *Forwarder) next() int { return min(f.size, f.reading) }

// step writes the next events and returns their number. It stores an error, so that operators see
// it.
func (f *Forwarder) step(ctx context.Context) (int, error) {
	err := f.hold(ctx)
	n := 0
	if err == nil {
		n, err = f.forward(ctx)
	}
	switch {
	case err == nil:
		f.failures = 0
		f.size = min(f.size+1+f.size/8, f.reading)
		return n, f.recovered(ctx)
	case errors.Is(err, errNotHeld):
		f.failures = 0
		return n, err
	case ctx.Err() != nil:
		return n, err
	}
	f.failures++
	f.works = false
	return n, errors.Join(err, f.failed(ctx, err))
}

// failed stores an error. It retains the lease if another process would repeat events.
func (f *Forwarder) failed(ctx context.Context, err error) error {
	f.until = time.Time{}
	now, until := f.log.Now(), time.Time{}
	if f.unsaved != nil || errors.Is(err, sink.ErrUnconfirmed) {
		until = now.Add(f.pause(err) + sinkLease)
	}
	ctx, cancel := context.WithTimeout(ctx, sinkSave)
	defer cancel()
	return f.store.failed(ctx, bounded(err.Error()), now, until)
}

// recovered removes a stored error of a previous step, also if no event waits.
func (f *Forwarder) recovered(ctx context.Context) error {
	if f.works {
		return nil
	}
	if err := f.store.works(ctx); err != nil {
		return err
	}
	f.works = true
	return nil
}

// forward writes the next events and stores the progress, within the lease.
func (f *Forwarder) forward(ctx context.Context) (int, error) {
	held, cancel := context.WithTimeout(ctx, f.until.Sub(f.log.Now())-sinkMargin)
	defer cancel()
	events, err := f.store.after(held, f.at, f.next())
	if err != nil || len(events) == 0 {
		return 0, err
	}
	records := make([]sink.Record, len(events))
	for i, e := range events {
		records[i] = f.encode(ctx, e)
	}
	if f.until.Sub(f.log.Now()) < limits.AuditSinkTime+sinkMargin/2 {
		return 0, errors.New("reading the events from the database took too long")
	}
	n, failure := f.target.Write(held, records)
	if failure != nil {
		f.size = max(len(records)/2, 1)
	}
	if n > 0 {
		f.unsaved = f.advance(ctx, events[:n])
		f.at = f.unsaved.to
		// The events are written, also if ctx is done.
		saving, cancel := context.WithTimeout(context.WithoutCancel(ctx), sinkSave)
		defer cancel()
		failure = errors.Join(failure, f.save(saving))
	}
	return n, failure
}

// advance returns the progress of writing events. It logs gaps between them.
func (f *Forwarder) advance(ctx context.Context, events []Record) *progress {
	p := &progress{from: f.at, to: f.at}
	for _, e := range events {
		if gap := e.Sequence - p.to - 1; gap > 0 {
			p.lost += gap
			f.logger.ErrorContext(ctx, "Audit events were deleted before audit_sink accepted them", "events", gap, "before", e.Sequence)
		}
		p.to = e.Sequence
	}
	return p
}

// hold ensures that this process has the lease for longer than a write takes, and that at is the
// stored progress.
func (f *Forwarder) hold(ctx context.Context) error {
	now := f.log.Now()
	if f.unsaved == nil && f.until.Sub(now) > sinkLease*2/3 {
		return nil
	}
	if !f.created {
		if err := f.store.create(ctx, now); err != nil {
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
	ok, err := f.store.written(ctx, *f.unsaved, f.log.Now())
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

// encode returns an event in the JSON of REST. An event that cannot be encoded is written without
// its values, so that it does not delay later events.
func (f *Forwarder) encode(ctx context.Context, r Record) sink.Record {
	line, err := encodeLine(r)
	if err != nil {
		f.logger.ErrorContext(ctx, "An audit event that cannot be decoded is written to audit_sink without its values", "event", r.Sequence, "err", err)
		r.Before, r.After = "", ""
		for _, text := range []*string{&r.Actor, &r.Client, &r.Action, &r.Subject, &r.Reason, &r.RequestID} {
			*text = strings.ToValidUTF8(*text, "\uFFFD")
		}
		line, _ = encodeLine(r) // has no value that could be invalid
	}
	return sink.Record{Line: line, At: r.At, ID: r.Action, Warning: r.Refused}
}

func encodeLine(r Record) ([]byte, error) {
	e, err := r.toProto()
	if err != nil {
		return nil, err
	}
	raw, err := protojson.MarshalOptions{EmitUnpopulated: true}.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encoding the audit event %d: %w", r.Sequence, err)
	}
	var line bytes.Buffer
	if err := json.Compact(&line, raw); err != nil {
		return nil, fmt.Errorf("encoding the audit event %d: %w", r.Sequence, err)
	}
	return line.Bytes(), nil
}

// Check returns an error if events wait because writes fail, or because no process writes.
func (f *Forwarder) Check(ctx context.Context) error {
	s, err := f.log.SinkState(ctx)
	if err != nil {
		return err
	}
	return s.Err(f.log.Now())
}

// Err returns an error if events cannot be written, or if events wait and no process writes them. A
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
