package store_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/build/migrations"
	"slipway.dev/services/build/store"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// eventStore is a store with a clock that builds and their events are added to.
type eventStore struct {
	store.Store
	t   *testing.T
	now time.Time
}

func newEventStore(t *testing.T, db *sqldb.DB) *eventStore {
	t.Helper()
	if err := db.Migrate(t.Context(), "build", migrations.FS()); err != nil {
		t.Fatal(err)
	}
	return &eventStore{Store: store.New(db), t: t, now: time.Date(2026, 2, 28, 12, 0, 0, 0, time.UTC)}
}

// insert adds a build of a user, or of an anonymous client if who is nil, and returns its id.
func (s *eventStore) insert(content, engine string, who *platformv1.Identity) string {
	s.t.Helper()
	rec := store.Record{Request: &buildv1.SubmitBuildRequest{
		ContentId: content, Identity: who, Recipe: &buildv1.Recipe{Engine: engine, Platform: "linux/arm64"}, Target: &buildv1.Target{Registry: "r", Repository: "x", Tag: content},
	}, Owner: "ada", Created: s.now}
	rec.Renumber(1)
	if written, err := s.Insert(s.t.Context(), &rec); err != nil || !written {
		s.t.Fatalf("writing it: %t, %v", written, err)
	}
	return rec.ID
}

func (s *eventStore) take(id string, delivery int64) {
	s.t.Helper()
	s.now = s.now.Add(time.Minute)
	if taken, err := s.Take(s.t.Context(), id, delivery, "worker", "ticket", s.now); err != nil || !taken {
		s.t.Fatalf("taking it: %t, %v", taken, err)
	}
}

func (s *eventStore) complete(id string, r *buildv1.Result) {
	s.t.Helper()
	s.now = s.now.Add(time.Minute)
	r.BuildId, r.Delivery = id, 9
	if ended, err := s.Complete(s.t.Context(), r, s.now); err != nil || !ended {
		s.t.Fatalf("ending it: %t, %v", ended, err)
	}
}

// ids returns the ids of the events that are not published.
func (s *eventStore) ids(limit int) (out []string) {
	s.t.Helper()
	events, err := s.Events(s.t.Context(), limit)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range events {
		out = append(out, e.GetId())
	}
	return out
}

// TestEvents checks which events builds have, their order, and that each is there until it is
// removed.
func TestEvents(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		s := newEventStore(t, db)
		began := s.now
		ada := &platformv1.Identity{Endpoint: "https://platform.test", UserId: 1, WorkspaceId: 2}
		first, anonymous, index := s.insert("first", "conda", ada), s.insert("anonymous", "conda", nil), s.insert("index", "index", ada)
		s.take(first, 1)
		s.take(first, 2) // the build has started before
		s.take(anonymous, 1)
		s.complete(first, &buildv1.Result{Succeeded: true, Digest: "sha256:1"})
		s.complete(anonymous, &buildv1.Result{Reason: "build", Message: "step 2 failed"}) // a user may wait for it, too
		s.complete(index, &buildv1.Result{Reason: "internal", Message: strings.Repeat("ü", limits.EventText)})
		all := []string{first + ".build.started", first + ".build.succeeded", anonymous + ".build.failed", index + ".build.failed"}
		if diff := cmp.Diff(all, s.ids(100)); diff != "" {
			t.Errorf("the events: %s", diff)
		}
		if diff := cmp.Diff(all[:2], s.ids(2)); diff != "" {
			t.Errorf("the first events: %s", diff)
		}
		if n, oldest, err := s.EventsWaiting(t.Context()); err != nil || n != 4 || !oldest.Equal(began.Add(time.Minute)) {
			t.Errorf("%d events wait since %s: %v", n, oldest, err)
		}
		events, err := s.Events(t.Context(), 100)
		if err != nil {
			t.Fatal(err)
		}
		started, succeeded, failed, long := events[0], events[1], events[2], events[3]
		b := started.GetBuild()
		if started.GetEndpoint() != ada.GetEndpoint() || started.GetUserId() != 1 || started.GetWorkspaceId() != 2 || b.GetPlatform() != "linux/arm64" ||
			!b.GetCreationTime().AsTime().Equal(began) || !b.GetStartTime().AsTime().Equal(began.Add(time.Minute)) || b.Succeeded != nil || b.Digest != nil || b.Reason != nil || b.EndTime != nil {
			t.Errorf("the event of the start is %v", started)
		}
		if b := succeeded.GetBuild(); !b.GetSucceeded() || b.GetDigest() != "sha256:1" || b.Reason != nil || !b.GetEndTime().AsTime().Equal(succeeded.GetTime().AsTime()) {
			t.Errorf("the event of the success is %v", succeeded)
		}
		if b := failed.GetBuild(); failed.GetEndpoint() != "" || b.Succeeded == nil || b.GetSucceeded() || b.Digest != nil || b.GetReason() != "build" || b.GetMessage() != "step 2 failed" {
			t.Errorf("the event of the failure is %v", failed)
		}
		if m := long.GetBuild().GetMessage(); len(m) > limits.EventText || len(m) < limits.EventText-utf8.UTFMax || !utf8.ValidString(m) || long.GetBuild().Platform != nil {
			t.Errorf("a long message has %d bytes", len(m))
		}
		if raw, err := proto.Marshal(long); err != nil || len(raw) > limits.Event {
			t.Errorf("an event with a long message has %d bytes: %v", len(raw), err)
		}

		for range 2 { // a second replica has published the same
			if err := s.RemoveEvents(t.Context(), events[:3]); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(all[3:], s.ids(100)); diff != "" {
			t.Errorf("the event that is left: %s", diff)
		}
		if err := s.RemoveEnded(t.Context(), s.now.Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		if n, oldest, err := s.EventsWaiting(t.Context()); err != nil || n != 0 || !oldest.IsZero() || len(s.ids(100)) != 0 {
			t.Errorf("%d events wait since %s after the builds were deleted: %v", n, oldest, err)
		}
	})
}
