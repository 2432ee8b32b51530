package audit

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/protobuf/encoding/protojson"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sink"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/platform/migrations"
)

// A trail is an audit trail with a settable clock.
type trail struct {
	t   *testing.T
	log Log
	now time.Time
}

// eachTrail runs a test with an empty trail on every engine.
func eachTrail(t *testing.T, test func(tr *trail)) {
	t.Helper()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		if err := db.Migrate(t.Context(), "platform", migrations.FS()); err != nil {
			t.Fatal(err)
		}
		tr := &trail{t: t, now: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)}
		tr.log = Log{DB: db, Now: func() time.Time { return tr.now }}
		test(tr)
	})
}

// record records events with these subjects.
func (tr *trail) record(subjects ...string) {
	tr.t.Helper()
	for i, s := range subjects {
		e := Event{Actor: Actor{UserID: 7, Name: "ada"}, OrgID: 3, Action: "user.create", Subject: s, After: map[string]any{"n": i, "name": "<Zoë>"}}
		if i%2 == 1 {
			e.Refused = "No"
		}
		if err := tr.log.Record(tr.t.Context(), e); err != nil {
			tr.t.Fatal(err)
		}
	}
}

// forwarder returns a process that writes to an address.
func (tr *trail) forwarder(address string) *Forwarder {
	tr.t.Helper()
	target, err := sink.Parse(address)
	if err != nil {
		tr.t.Fatal(err)
	}
	return NewForwarder(tr.log, target, testkit.Log(tr.t), nil)
}

// step writes events with a process, and checks how many it reports and its error.
func (tr *trail) step(f *Forwarder, want int, problem string) {
	tr.t.Helper()
	n, err := f.step(tr.t.Context())
	if n != want || problem == "" && err != nil || problem != "" && (err == nil || !strings.Contains(err.Error(), problem)) {
		tr.t.Fatalf("wrote %d events: %v; want %d and %q", n, err, want, problem)
	}
}

// state checks how many events wait and were lost, and the error.
func (tr *trail) state(waiting, lost int64, problem string) {
	tr.t.Helper()
	s, err := tr.log.SinkState(tr.t.Context())
	if err != nil || s.Waiting != waiting || s.Lost != lost {
		tr.t.Fatalf("the state is %+v, %v; want %d waiting and %d lost", s, err, waiting, lost)
	}
	err = s.Err(tr.now)
	if problem == "" && err != nil || problem != "" && (err == nil || !strings.Contains(err.Error(), problem)) {
		tr.t.Fatalf("the state has the error %v; want %q", err, problem)
	}
}

// subjects checks the subjects of the lines of a file.
func (tr *trail) subjects(path string, want ...string) {
	tr.t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		tr.t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(raw)) {
		got = append(got, subject(tr.t, []byte(line)))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		tr.t.Fatalf("the subjects in the file: %s", diff)
	}
}

func subject(t *testing.T, line []byte) string {
	t.Helper()
	var e struct{ Subject string }
	if err := json.Unmarshal(line, &e); err != nil {
		t.Errorf("%q: %v", line, err)
	}
	return e.Subject
}

func newFile(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "audit.jsonl")
}

// TestForwarderWritesTheJSONOfREST checks that the lines are the events that ListAuditEvents
// returns.
func TestForwarderWritesTheJSONOfREST(t *testing.T) {
	t.Parallel()
	eachTrail(t, func(tr *trail) {
		tr.record("a", "b")
		file := newFile(tr.t)
		tr.step(tr.forwarder(file), 2, "")
		list, err := (&Service{Log: tr.log}).ListAuditEvents(tr.t.Context(), &platformv1.ListAuditEventsRequest{})
		raw, err2 := os.ReadFile(file)
		if err := errors.Join(err, err2); err != nil {
			tr.t.Fatal(err)
		}
		lines := strings.Split(string(raw), "\n")
		for i, want := range []*platformv1.AuditEvent{list.GetEvents()[1], list.GetEvents()[0]} {
			encoded, err := protojson.MarshalOptions{EmitUnpopulated: true}.Marshal(want) // as the gateway does
			var a, b any
			if err := errors.Join(err, json.Unmarshal(encoded, &a), json.Unmarshal([]byte(lines[i]), &b)); err != nil {
				tr.t.Fatal(err)
			}
			if diff := cmp.Diff(a, b); diff != "" {
				tr.t.Errorf("event %d: %s", i, diff)
			}
		}
	})
}

// TestForwarderContinues checks that a new process continues after the last written event, also
// in another sink, and that a file that was renamed or deleted is replaced.
func TestForwarderContinues(t *testing.T) {
	t.Parallel()
	eachTrail(t, func(tr *trail) {
		file, other := newFile(tr.t), newFile(tr.t)
		first := tr.forwarder(file)
		tr.step(first, 0, "")
		first.reading, first.size = 2, 2
		tr.record("a", "b", "c")
		tr.step(first, 2, "")
		tr.state(1, 0, "")
		tr.step(first, 1, "")
		tr.step(first, 0, "")
		tr.state(0, 0, "")
		first.end(tr.t.Context())
		second := tr.forwarder(file)
		tr.record("d")
		tr.step(second, 1, "")
		tr.subjects(file, "a", "b", "c", "d")
		if err := os.Rename(file, file+".1"); err != nil {
			tr.t.Fatal(err)
		}
		tr.record("e")
		tr.step(second, 1, "")
		tr.subjects(file, "e")
		second.end(tr.t.Context())
		tr.record("f")
		tr.step(tr.forwarder(other), 1, "")
		tr.subjects(other, "f")
	})
}

// TestForwarderWaits fills the disk of the sink, and checks that events wait, that the state shows
// it, that the trail can be written, and that all events are written when there is space again.
func TestForwarderWaits(t *testing.T) {
	t.Parallel()
	eachTrail(t, func(tr *trail) {
		dir := testkit.SmallDisk(tr.t, 1<<20).Dir
		file, ballast := filepath.Join(dir, "audit.jsonl"), filepath.Join(dir, "ballast")
		f := tr.forwarder(file)
		tr.record("a")
		tr.step(f, 1, "")
		if err := os.WriteFile(ballast, make([]byte, 2<<20), 0o600); err == nil {
			tr.t.Fatal("the disk is not full")
		}
		var many, want []string
		for i := range 60 { // more than a page of memory
			many = append(many, fmt.Sprint("b", i))
		}
		want = append([]string{"a"}, many...)
		tr.record(many...)
		tr.step(f, 0, "no space left")
		tr.state(60, 0, "audit_sink has not accepted 60 events since 2026-01-31T12:00:00Z: write "+file+": no space left on device")
		tr.now = tr.now.Add(time.Hour)
		tr.step(f, 0, "no space left")
		tr.state(60, 0, "since 2026-01-31T12:00:00Z")
		tr.subjects(file, "a")
		if err := os.Remove(ballast); err != nil {
			tr.t.Fatal(err)
		}
		for at := 1; at < len(want); { // a few at a time after failures
			n, err := f.step(tr.t.Context())
			if n == 0 || err != nil {
				tr.t.Fatal(n, err)
			}
			at += n
		}
		tr.state(0, 0, "")
		tr.subjects(file, want...)
	})
}

// TestForwarderReplicas checks that one of two processes writes at a time, that the other one
// continues when the first one fails, ends, or is killed, and that no event is lost or repeated.
func TestForwarderReplicas(t *testing.T) {
	t.Parallel()
	eachTrail(t, func(tr *trail) {
		file := newFile(tr.t)
		a, b := tr.forwarder(file), tr.forwarder(file)
		tr.record("1")
		tr.step(a, 1, "")
		tr.record("2")
		tr.step(b, 0, errNotHeld.Error())
		tr.now = tr.now.Add(sinkLease / 2) // a extends the lease
		tr.step(a, 1, "")
		tr.now = tr.now.Add(sinkLease * 3 / 4)
		tr.step(b, 0, errNotHeld.Error())
		tr.record("3")
		tr.now = tr.now.Add(sinkLease / 2) // a was killed or stopped
		tr.state(1, 0, "")
		tr.step(b, 1, "")
		tr.step(a, 0, errNotHeld.Error())
		a.target = tr.forwarder("/dev/null/none").target // the disk of a fails
		b.end(tr.t.Context())
		tr.record("4")
		tr.step(a, 0, "not a directory")
		tr.step(b, 1, "")
		tr.subjects(file, "1", "2", "3", "4")
	})
}

// TestForwarderStopped checks that a process that was stopped while it wrote does not move the
// position of the process that has continued.
func TestForwarderStopped(t *testing.T) {
	t.Parallel()
	eachTrail(t, func(tr *trail) {
		file := newFile(tr.t)
		a, b := tr.forwarder(file), tr.forwarder(file)
		tr.record("1")
		if err := a.hold(tr.t.Context()); err != nil {
			tr.t.Fatal(err)
		}
		a.unsaved = &progress{from: 0, to: 1} // written, but not stored
		tr.now = tr.now.Add(2 * sinkLease)
		tr.record("2")
		tr.step(b, 2, "")
		tr.record("3")
		tr.step(a, 0, errNotHeld.Error())
		tr.step(b, 1, "")
		tr.subjects(file, "1", "2", "3")
	})
}

// TestForwarderSaves checks that events are not repeated while the position cannot be stored.
func TestForwarderSaves(t *testing.T) {
	t.Parallel()
	eachTrail(t, func(tr *trail) {
		file := newFile(tr.t)
		f := tr.forwarder(file)
		tr.step(f, 0, "")
		tr.record("1")
		tr.exec(`ALTER TABLE platform_audit_sink RENAME COLUMN lost TO lost_before`)
		tr.step(f, 1, "storing how far the audit trail was written")
		tr.step(f, 0, "storing how far the audit trail was written")
		tr.exec(`ALTER TABLE platform_audit_sink RENAME COLUMN lost_before TO lost`)
		tr.step(f, 0, "")
		tr.state(0, 0, "")
		tr.record("2")
		tr.step(f, 1, "")
		tr.subjects(file, "1", "2")
	})
}

func (tr *trail) exec(statement string) {
	tr.t.Helper()
	if _, err := tr.log.DB.ExecContext(tr.t.Context(), statement); err != nil {
		tr.t.Fatal(err)
	}
}

// TestSweepWaits checks that Sweep does not delete events that a sink has not accepted, for a
// limited time, and that deleted ones are counted.
func TestSweepWaits(t *testing.T) {
	t.Parallel()
	eachTrail(t, func(tr *trail) {
		const retention = 10 * 24 * time.Hour
		left := func(want int) {
			t.Helper()
			if err := tr.log.Sweep(tr.t.Context(), tr.now.Add(-retention)); err != nil {
				tr.t.Fatal(err)
			}
			var n int
			if err := tr.log.DB.QueryRowContext(tr.t.Context(), `SELECT count(*) FROM platform_audit`).Scan(&n); err != nil || n != want {
				tr.t.Fatalf("%d events are left, %v; want %d", n, err, want)
			}
		}
		tr.record("1", "2")
		tr.now = tr.now.Add(retention + time.Hour)
		left(0) // without a sink
		good, broken := tr.forwarder(newFile(tr.t)), tr.forwarder("/dev/null/none")
		tr.record("3")
		tr.step(good, 1, "")
		good.end(tr.t.Context())
		tr.state(0, 0, "") // events before the first sink are not lost
		tr.record("4", "5")
		fails := func() {
			t.Helper()
			tr.step(broken, 0, "not a directory")
		}
		fails()
		tr.now = tr.now.Add(retention + time.Hour)
		fails()
		left(2) // the written event was deleted
		tr.now = tr.now.Add(limits.AuditSinkHold - 2*time.Hour)
		fails()
		left(2)
		tr.record("6")
		tr.now = tr.now.Add(2 * time.Hour)
		fails()
		left(1)
		tr.state(1, 2, "audit_sink has not accepted 1 events")
		if _, err := tr.log.Verify(tr.t.Context()); err != nil {
			tr.t.Error(err)
		}
		tr.step(good, 1, "")
		tr.state(0, 2, "")
		tr.record("7") // the sink is disabled, so that its events wait for a limited time, too
		tr.now = tr.now.Add(retention + time.Hour)
		left(1)
		tr.now = tr.now.Add(limits.AuditSinkHold)
		left(0)
		tr.state(0, 2, "")
		tr.record("8")
		tr.step(good, 1, "") // what was deleted while it was disabled is not lost
		tr.state(0, 2, "")
	})
}

// TestForwarderUnreadable checks that values that cannot be decoded do not stop later events.
func TestForwarderUnreadable(t *testing.T) {
	t.Parallel()
	eachTrail(t, func(tr *trail) {
		tr.record("1", "2")
		tr.exec(`UPDATE platform_audit SET new_values = '[' WHERE sequence = 1`)
		file := newFile(tr.t)
		f := tr.forwarder(file)
		tr.step(f, 2, "")
		tr.subjects(file, "1", "2")
		invalid := f.encode(tr.t.Context(), Record{Sequence: 3, Actor: "a\xff", Before: "["})
		if subject(tr.t, invalid.Line) != "" || !strings.Contains(string(invalid.Line), "\"actor\":\"a\uFFFD\"") {
			tr.t.Errorf("an event with invalid UTF-8: %s", invalid.Line)
		}
	})
}

// TestForwarderShowsFailures checks that the state shows that events cannot be read, and that it
// does not when they can be read again.
func TestForwarderShowsFailures(t *testing.T) {
	t.Parallel()
	eachTrail(t, func(tr *trail) {
		f := tr.forwarder(newFile(tr.t))
		tr.record("1")
		tr.step(f, 1, "")
		tr.record("2")
		tr.exec(`ALTER TABLE platform_audit RENAME COLUMN request_id TO damaged`)
		tr.step(f, 0, "request_id")
		tr.state(1, 0, "request_id")
		tr.exec(`ALTER TABLE platform_audit RENAME COLUMN damaged TO request_id`)
		tr.step(f, 1, "")
		tr.exec(`ALTER TABLE platform_audit RENAME COLUMN request_id TO damaged`)
		tr.step(f, 0, "request_id")
		tr.exec(`ALTER TABLE platform_audit RENAME COLUMN damaged TO request_id`)
		tr.step(f, 0, "")
		if s, err := tr.log.SinkState(tr.t.Context()); err != nil || s.Problem != "" || !s.Failing.IsZero() {
			tr.t.Errorf("the state is %+v, %v", s, err)
		}
	})
}

// TestForwarderGaps checks that events that were deleted in the middle of the trail are counted.
func TestForwarderGaps(t *testing.T) {
	t.Parallel()
	eachTrail(t, func(tr *trail) {
		file := newFile(tr.t)
		tr.record("1", "2", "3", "4")
		tr.exec(`DELETE FROM platform_audit WHERE sequence IN (2, 3)`)
		tr.step(tr.forwarder(file), 2, "")
		tr.state(0, 2, "")
		tr.subjects(file, "1", "4")
	})
}

// TestForwarderBeforeChain checks that events are written that were recorded before the chain of
// hashes began.
func TestForwarderBeforeChain(t *testing.T) {
	t.Parallel()
	eachTrail(t, func(tr *trail) {
		file := newFile(tr.t)
		tr.record("1", "2", "3")
		tr.exec(`UPDATE platform_audit SET hash = NULL WHERE sequence <= 2`)
		tr.exec(`UPDATE platform_audit_chain SET start_sequence = 2`)
		f := tr.forwarder(file)
		if err := f.store.create(tr.t.Context(), tr.now); err != nil {
			tr.t.Fatal(err)
		}
		tr.state(3, 0, "")
		tr.step(f, 3, "")
		tr.subjects(file, "1", "2", "3")
	})
}

// A target calls a function for each write.
type target func(ctx context.Context, records []sink.Record) (int, error)

func (w target) Write(ctx context.Context, records []sink.Record) (int, error) {
	return w(ctx, records)
}

func (w target) String() string { return "test" }

// TestForwarderShrinks checks that a receiver that is too slow for many events gets fewer at a
// time, and that one that confirms none gets few repetitions, from one process.
func TestForwarderShrinks(t *testing.T) {
	t.Parallel()
	eachTrail(t, func(tr *trail) {
		f, other := tr.forwarder(newFile(tr.t)), tr.forwarder(newFile(tr.t))
		accepts, sent := 3, 0
		f.target = target(func(_ context.Context, records []sink.Record) (int, error) {
			sent += len(records)
			if len(records) > accepts {
				return 0, fmt.Errorf("test: %w", sink.ErrUnconfirmed)
			}
			return len(records), nil
		})
		var many []string
		for i := range 20 {
			many = append(many, fmt.Sprint(i))
		}
		tr.record(many...)
		for _, want := range []int{0, 0, 0, 2, 3, 0, 2, 3} { // 20, 10, 5, 2, 3, 4, 2, 3
			n, err := f.step(tr.t.Context())
			if n != want || (n == 0) != errors.Is(err, sink.ErrUnconfirmed) {
				tr.t.Fatalf("%d, %v; want %d", n, err, want)
			}
		}
		accepts, sent = 0, 0
		var waited time.Duration
		for range 20 {
			_, err := f.step(tr.t.Context())
			waited += f.pause(err)
			tr.step(other, 0, errNotHeld.Error())
			tr.now = tr.now.Add(f.pause(err))
			tr.step(other, 0, errNotHeld.Error())
		}
		if sent > 40 || waited < 50*time.Minute {
			tr.t.Errorf("%d repetitions within %s", sent, waited)
		}
	})
}

// TestForwarderBlocked checks that a process that loses the lease in a write does not move the
// position, and that the end of a process in a write stores the position.
func TestForwarderBlocked(t *testing.T) {
	t.Parallel()
	eachTrail(t, func(tr *trail) {
		file := newFile(tr.t)
		a, b := tr.forwarder(file), tr.forwarder(file)
		written := a.target
		during := func() {}
		a.target = target(func(ctx context.Context, records []sink.Record) (int, error) {
			if until, ok := ctx.Deadline(); !ok || time.Until(until) > sinkLease-sinkMargin {
				tr.t.Errorf("a write may end at %s", until)
			}
			during()
			return written.Write(ctx, records)
		})
		tr.record("1", "2")
		during = func() {
			tr.now = tr.now.Add(2 * sinkLease)
			tr.record("3")
			tr.step(b, 3, "")
		}
		n, err := a.step(tr.t.Context())
		if n != 2 || !errors.Is(err, errNotHeld) {
			tr.t.Fatal(n, err)
		}
		tr.state(0, 0, "")
		tr.subjects(file, "1", "2", "3", "1", "2")
		b.end(tr.t.Context())
		tr.record("4")
		ctx, cancel := context.WithCancel(tr.t.Context())
		defer cancel()
		during = cancel
		if n, err := a.step(ctx); n != 1 || err != nil && !errors.Is(err, context.Canceled) {
			tr.t.Fatal(n, err)
		}
		a.end(ctx)
		tr.state(0, 0, "")
		tr.step(b, 0, "")
	})
}

// TestSinkMetrics checks the age of the oldest event, and for how long none was accepted.
func TestSinkMetrics(t *testing.T) {
	t.Parallel()
	eachTrail(t, func(tr *trail) {
		f := tr.forwarder(newFile(tr.t))
		reg := prometheus.NewRegistry()
		reg.MustRegister(sinkMetrics{f})
		metrics := func(age, stalled float64) {
			tr.t.Helper()
			families, err := reg.Gather()
			if err != nil {
				tr.t.Fatal(err)
			}
			got := map[string]float64{}
			for _, m := range families {
				got[strings.TrimPrefix(m.GetName(), "slipway_audit_sink_")] = m.GetMetric()[0].GetGauge().GetValue()
			}
			if got["age_seconds"] != age || got["stalled_seconds"] != stalled {
				tr.t.Errorf("the metrics are %v; want %v and %v", got, age, stalled)
			}
		}
		tr.record("1", "2")
		tr.now = tr.now.Add(time.Hour)
		if err := f.store.create(tr.t.Context(), tr.now); err != nil {
			tr.t.Fatal(err)
		}
		metrics(3600, 0) // a new sink has old events
		tr.now = tr.now.Add(time.Minute)
		metrics(3660, 60)
		f.size = 1
		tr.step(f, 1, "")
		metrics(3660, 0)
		tr.step(f, 1, "")
		metrics(0, 0)
		tr.now = tr.now.Add(time.Hour)
		tr.record("3")
		tr.now = tr.now.Add(time.Minute)
		metrics(60, 60)
	})
}

// A receiver is a syslog receiver that can be killed.
type receiver struct {
	listener net.Listener
	mu       sync.Mutex
	messages []string
}

// listen starts a receiver at an address.
func listen(t *testing.T, address string) *receiver {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	r := &receiver{listener: l}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go r.serve(conn)
		}
	}()
	return r
}

func (r *receiver) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	in := bufio.NewReader(conn)
	for {
		var n int
		if _, err := fmt.Fscanf(in, "%d ", &n); err != nil {
			return
		}
		message := make([]byte, n)
		for at := 0; at < n; {
			k, err := in.Read(message[at:])
			if err != nil {
				return
			}
			at += k
		}
		r.mu.Lock()
		r.messages = append(r.messages, string(message))
		r.mu.Unlock()
	}
}

// subjects returns the subjects of the messages.
func (r *receiver) subjects(t *testing.T) (out []string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.messages {
		_, text, _ := strings.Cut(m, "{") // a host without a name has "-" as well
		out = append(out, subject(t, []byte("{"+text)))
	}
	return out
}

// TestForwarderRuns runs two processes with a real receiver, which is killed and started again,
// and checks the metrics.
func TestForwarderRuns(t *testing.T) {
	t.Parallel()
	eachTrail(t, func(tr *trail) {
		t := tr.t
		r := listen(t, "127.0.0.1:0")
		address := r.listener.Addr().String()
		reg := prometheus.NewRegistry()
		a, b := tr.forwarder("syslog://"+address), tr.forwarder("syslog://"+address)
		reg.MustRegister(sinkMetrics{a})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		running.Go(func() { a.Run(ctx) })
		running.Go(func() { b.Run(ctx) })
		tr.record("1", "2", "3")
		received := func(r *receiver, want ...string) {
			t.Helper()
			testkit.Until(t, "the receiver to get the events", func() error {
				if diff := cmp.Diff(want, r.subjects(t)); diff != "" {
					return errors.New(diff)
				}
				return nil
			})
		}
		received(r, "1", "2", "3")
		_ = r.listener.Close()
		tr.record("4", "5")
		testkit.Until(t, "the failure", func() error {
			s, err := tr.log.SinkState(t.Context())
			if err != nil || !strings.Contains(s.Problem, "refused") {
				return fmt.Errorf("%+v, %w", s, errors.Join(err, errors.New("no failure")))
			}
			return nil
		})
		metric := func(want string) {
			t.Helper()
			if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "slipway_audit_sink_waiting", "slipway_audit_sink_lost_total"); err != nil {
				t.Error(err)
			}
		}
		const help = "# HELP slipway_audit_sink_lost_total Audit events that were deleted before audit_sink accepted them. All replicas report the same value.\n" +
			"# TYPE slipway_audit_sink_lost_total counter\nslipway_audit_sink_lost_total 0\n" +
			"# HELP slipway_audit_sink_waiting Audit events that audit_sink has not accepted yet; only with this setting. All replicas report the same value: use max, not sum.\n" +
			"# TYPE slipway_audit_sink_waiting gauge\nslipway_audit_sink_waiting "
		metric(help + "2\n")
		received(listen(t, address), "4", "5")
		testkit.Until(t, "the progress", func() error {
			s, err := tr.log.SinkState(t.Context())
			if err != nil || s.Waiting > 0 {
				return fmt.Errorf("%+v, %w", s, errors.Join(err, errors.New("events wait")))
			}
			return a.Check(t.Context())
		})
		metric(help + "0\n")
	})
}

// TestSinkState checks the state before a sink exists, and while no process writes.
func TestSinkState(t *testing.T) {
	t.Parallel()
	eachTrail(t, func(tr *trail) {
		tr.record("1")
		tr.state(0, 0, "")
		if err := tr.forwarder("/dev/null/none").store.create(tr.t.Context(), tr.now); err != nil {
			tr.t.Fatal(err)
		}
		tr.state(1, 0, "")
		tr.now = tr.now.Add(sinkLate + time.Second)
		tr.state(1, 0, "1 events wait for audit_sink, the first since 2026-01-31T12:00:00Z, and no process writes them")
		if err := tr.forwarder("/dev/null/none").hold(tr.t.Context()); err != nil { // writes, but not fast enough
			tr.t.Fatal(err)
		}
		tr.state(1, 0, "")
		tr.now = tr.now.Add(sinkLease + time.Second)
		tr.state(1, 0, "no process writes them")
		if _, err := tr.log.DB.ExecContext(tr.t.Context(), `DROP TABLE platform_audit_sink`); err != nil {
			tr.t.Fatal(err)
		}
		if _, err := tr.log.SinkState(tr.t.Context()); err == nil || errors.Is(err, sql.ErrNoRows) {
			tr.t.Errorf("without the table: %v", err)
		}
	})
}
