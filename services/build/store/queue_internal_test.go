package store

import (
	"testing"
	"time"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/build/migrations"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// TestQuickWorker checks that a worker which reports before its job is recorded as
// published does not lose the build's next job, and that two replicas that both find a job
// lost do not queue it twice.
func TestQuickWorker(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		ctx, s := t.Context(), New(db)
		if err := db.Migrate(ctx, "build", migrations.FS()); err != nil {
			t.Fatal(err)
		}
		rec := Record{Request: &buildv1.SubmitBuildRequest{
			ContentId: "0123456789abcdef", Recipe: &buildv1.Recipe{Engine: "conda", Platform: "linux/amd64"}, Target: &buildv1.Target{Registry: "r", Repository: "x", Tag: "1"},
		}, Owner: "ada", Created: time.Now()}
		rec.Renumber(1)
		if written, err := s.Insert(ctx, &rec); err != nil || !written {
			t.Fatalf("writing it: %t, %v", written, err)
		}
		waits := func(when string, publications int64) (one Record) {
			t.Helper()
			list, err := s.FirstOfEach(ctx)
			if err != nil || len(list) != 1 || list[0].Publications != publications {
				t.Fatalf("%s there wait %+v, %v", when, list, err)
			}
			return list[0]
		}
		first := waits("at first", 0)
		for name, again := range map[string]func() error{
			"continues in steps": func() error { _, err := s.Reroute(ctx, rec.ID, rec.Request); return err },
			"was handed back":    func() error { return s.Release(ctx, rec.ID) },
		} {
			before := waits("before it "+name, first.Publications)
			if taken, err := s.Take(ctx, rec.ID, 1, "worker", "ticket", time.Now()); err != nil || !taken {
				t.Fatalf("taking it: %t, %v", taken, err)
			}
			if err := again(); err != nil {
				t.Fatal(err)
			}
			if err := s.MarkPublished(ctx, before, time.Now()); err != nil {
				t.Fatal(err)
			}
			first = waits("after it "+name, before.Publications+1)
			if anew := name == "continues in steps"; first.Started.IsZero() != anew {
				t.Errorf("after it %s it runs since %s", name, first.Started)
			}
		}
		if err := s.MarkPublished(ctx, first, time.Now()); err != nil {
			t.Fatal(err)
		}
		out, err := s.Published(ctx)
		if err != nil || len(out) != 1 {
			t.Fatalf("on the bus are %+v, %v", out, err)
		}
		for range 2 {
			if err := s.Unpublish(ctx, out[0]); err != nil {
				t.Fatal(err)
			}
		}
		waits("after two replicas found it lost", out[0].Publications+1)
	})
}
