package build

import (
	"testing"
	"time"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// TestQuickWorker: a worker that reports before it is noted that the bus has its job
// takes the next one of the build from nobody; nor do two replicas that both find a
// job lost queue it twice.
func TestQuickWorker(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		ctx, s := t.Context(), store{db}
		if err := db.Migrate(ctx, "build", Migrations()); err != nil {
			t.Fatal(err)
		}
		rec := record{request: &buildv1.SubmitBuildRequest{
			ContentId: "0123456789abcdef", Recipe: &buildv1.Recipe{Engine: "conda", Platform: "linux/amd64"}, Target: &buildv1.Target{Registry: "r", Repository: "x", Tag: "1"},
		}, owner: "ada", created: time.Now()}
		rec.renumber(1)
		if written, err := s.insert(ctx, &rec); err != nil || !written {
			t.Fatalf("writing it: %t, %v", written, err)
		}
		waits := func(when string, publications int64) (one record) {
			t.Helper()
			list, err := s.firstOfEach(ctx)
			if err != nil || len(list) != 1 || list[0].publications != publications {
				t.Fatalf("%s there wait %+v, %v", when, list, err)
			}
			return list[0]
		}
		first := waits("at first", 0)
		for name, again := range map[string]func() error{
			"goes on in steps": func() error { return s.reroute(ctx, rec.id, rec.request) },
			"was handed back":  func() error { return s.release(ctx, rec.id) },
		} {
			before := waits("before it "+name, first.publications)
			if taken, err := s.take(ctx, rec.id, 1, "worker", "ticket", time.Now()); err != nil || !taken {
				t.Fatalf("taking it: %t, %v", taken, err)
			}
			if err := again(); err != nil {
				t.Fatal(err)
			}
			if err := s.markPublished(ctx, before, time.Now()); err != nil {
				t.Fatal(err)
			}
			first = waits("after it "+name, before.publications+1)
			if anew := name == "goes on in steps"; first.started.IsZero() != anew {
				t.Errorf("after it %s it runs since %s", name, first.started)
			}
		}
		if err := s.markPublished(ctx, first, time.Now()); err != nil {
			t.Fatal(err)
		}
		out, err := s.published(ctx)
		if err != nil || len(out) != 1 {
			t.Fatalf("on the bus are %+v, %v", out, err)
		}
		for range 2 {
			if err := s.unpublish(ctx, out[0]); err != nil {
				t.Fatal(err)
			}
		}
		waits("after two replicas found it lost", out[0].publications+1)
	})
}
