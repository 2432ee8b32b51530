package store

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/container/migrations"
	"slipway.dev/services/container/tokens"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// A scanFixture is a store with valid requests.
type scanFixture struct {
	Store
	now time.Time
}

func newScanFixture(t *testing.T, db *sqldb.DB) scanFixture {
	t.Helper()
	if err := db.Migrate(t.Context(), "container", migrations.FS()); err != nil {
		t.Fatal(err)
	}
	return scanFixture{New(db), time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)}
}

// request stores a request with a scan of content, and returns its id.
func (f scanFixture) request(t *testing.T, content string, age time.Duration) string {
	t.Helper()
	token := tokens.New()
	plan := &containerv1.Plan{Token: token, BuildId: "b_1", Identity: &platformv1.Identity{Endpoint: "https://p", UserId: 1}}
	rec := Record{Created: f.now.Add(-age), Expires: f.now.Add(time.Hour), Plan: plan, Request: &containerv1.ContainerRequest{ScanMode: "async"}}
	id := tokens.IDOf(token)
	if err := errors.Join(f.Insert(t.Context(), rec), f.PutScan(t.Context(), Scan{ID: "sc-" + id[:16] + "_1", Request: id, Build: "b_1", Created: rec.Created}, f.now.Add(time.Minute))); err != nil {
		t.Fatal(err)
	}
	if content != "" {
		if err := f.LinkScan(t.Context(), "sc-"+id[:16]+"_1", content, "sha256:"+content); err != nil {
			t.Fatal(err)
		}
	}
	return id
}

// pending stores a pending scan.
func (f scanFixture) pending(t *testing.T, content, version, client, request string, repeated bool) {
	t.Helper()
	err := f.PutFindings(t.Context(), Findings{Content: content, Version: version, VersionAt: f.now.Add(time.Duration(len(version)) * time.Hour), Client: client, Request: request, Digest: "d", Repeated: repeated}, f.now, f.now.Add(-time.Minute))
	if err != nil {
		t.Fatal(err)
	}
}

func (f scanFixture) claim(t *testing.T, now time.Time) (Findings, bool) {
	t.Helper()
	got, ok, err := f.ClaimFindings(t.Context(), now, now.Add(30*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	return got, ok
}

// TestScanOfBuild checks whose scan of a build is returned.
func TestScanOfBuild(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		f := newScanFixture(t, db)
		f.request(t, "a", time.Hour)
		newer := f.request(t, "a", time.Minute)
		token := tokens.New()
		rec := Record{Created: f.now, Expires: f.now.Add(time.Hour), Plan: &containerv1.Plan{Token: token, BuildId: "b_1"}, Request: &containerv1.ContainerRequest{ScanMode: "async"}}
		if err := errors.Join(f.Insert(t.Context(), rec), f.PutScan(t.Context(), Scan{ID: "sc-anonymous", Request: tokens.IDOf(token), Build: "b_1", Created: f.now}, f.now)); err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct {
			build string
			who   *platformv1.Identity
			want  string
		}{
			"anonymous": {"b_1", nil, ""}, "the user": {"b_1", &platformv1.Identity{Endpoint: "https://p", UserId: 1}, newer},
			"another user": {"b_1", &platformv1.Identity{Endpoint: "https://p", UserId: 2}, ""}, "another platform": {"b_1", &platformv1.Identity{Endpoint: "https://q", UserId: 1}, ""},
			"another workspace": {"b_1", &platformv1.Identity{Endpoint: "https://p", UserId: 1, WorkspaceId: 7}, ""}, "another build": {"b_2", &platformv1.Identity{Endpoint: "https://p", UserId: 1}, ""},
			"no build": {"", &platformv1.Identity{Endpoint: "https://p", UserId: 1}, ""},
		} {
			got, err := f.ScanOfBuild(t.Context(), c.build, c.who)
			if got.Request != c.want || errors.Is(err, fault.NotFound) != (c.want == "") || err != nil && c.want != "" {
				t.Errorf("%s: %q, %v, want %q", name, got.Request, err, c.want)
			}
		}
	})
}

// TestScansAreClaimedOnce has several replicas claim the same scans: each is claimed once, and again when its claim has ended.
func TestScansAreClaimedOnce(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		f := newScanFixture(t, db)
		for i := range 5 {
			content := fmt.Sprint("c", i)
			f.pending(t, content, "v", content, "r", false)
			f.pending(t, content, "v", content, "r", false) // another request
		}
		var mu sync.Mutex
		var all sync.WaitGroup
		claimed := map[string]int{}
		for range 4 {
			all.Go(func() {
				for misses := 0; misses < 20; {
					got, ok, err := f.ClaimFindings(t.Context(), f.now, f.now.Add(30*time.Second))
					if err != nil {
						t.Error(err)
						return
					}
					if !ok {
						misses++
						continue
					}
					mu.Lock()
					claimed[got.Content]++
					mu.Unlock()
				}
			})
		}
		all.Wait()
		if len(claimed) != 5 {
			t.Errorf("the claims are %v", claimed)
		}
		for content, n := range claimed {
			if n != 1 {
				t.Errorf("%s was claimed %d times", content, n)
			}
		}
		later := f.now.Add(time.Minute)
		second, ok := f.claim(t, later)
		if !ok || second.Claims != 2 {
			t.Fatalf("after the lease: %+v, %v", second, ok)
		}
		first := second
		first.Claims, first.Result = 1, &containerv1.ScanResult{}
		if held, err := f.EndFindings(t.Context(), first, later); err != nil || held {
			t.Errorf("the process that lost its claim stored a result: %v, %v", held, err)
		}
		if held, err := f.PostponeFindings(t.Context(), first, later); err != nil || held {
			t.Errorf("the process that lost its claim renewed it: %v, %v", held, err)
		}
		second.Result = &containerv1.ScanResult{Counts: map[string]int32{"HIGH": 1}, DatabaseTime: timestamppb.New(f.now)}
		if held, err := f.EndFindings(t.Context(), second, later); err != nil || !held {
			t.Fatalf("%v, %v", held, err)
		}
		got, err := f.FindingsOf(t.Context(), second.Content)
		if err != nil || got.State != ScanDone || got.Result.GetCounts()["HIGH"] != 1 || !got.Ended.Equal(later) || !got.Started.Equal(later) {
			t.Errorf("the findings are %+v, %v", got, err)
		}
	})
}

// TestScansAreShared checks that a client with many scans does not delay others, and that repeated scans come last.
func TestScansAreShared(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		f := newScanFixture(t, db)
		f.pending(t, "again", "v", "third", "r", true)
		for i := range 20 {
			f.pending(t, fmt.Sprint("many", i), "v", "busy", "r", false)
		}
		f.pending(t, "one", "v", "other", "r", false)
		var order []string
		for range 4 {
			got, _ := f.claim(t, f.now)
			order = append(order, got.Client)
		}
		if order[0] == order[1] || order[3] != "third" {
			t.Errorf("the clients were served as %v", order)
		}
		if got, ok := f.claim(t, f.now); ok {
			t.Errorf("a client has more scans than allowed: %+v", got)
		}
	})
}

// TestScansAreRepeated checks which images are scanned with a new database: the newest request of each, once.
func TestScansAreRepeated(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		f := newScanFixture(t, db)
		f.request(t, "a", 2*time.Hour)
		newest := f.request(t, "a", time.Hour)
		f.request(t, "", 0)
		revoked := f.request(t, "b", 0)
		if err := f.Revoke(t.Context(), revoked, f.now); err != nil {
			t.Fatal(err)
		}
		end := func(result *containerv1.ScanResult) {
			t.Helper()
			got, ok := f.claim(t, f.now)
			got.Result = result
			if held, err := f.EndFindings(t.Context(), got, f.now); err != nil || !held || !ok {
				t.Fatalf("%v %v %v", got, held, err)
			}
		}
		f.pending(t, "a", "v", "client", newest, false)
		end(&containerv1.ScanResult{Counts: map[string]int32{"LOW": 1}})
		if list, err := f.Repetitions(t.Context(), "v", f.now, f.now.Add(-time.Minute), 10); err != nil || len(list) != 0 {
			t.Errorf("with the same database: %v, %v", list, err)
		}
		list, err := f.Repetitions(t.Context(), "v2", f.now, f.now.Add(-time.Minute), 10)
		if err != nil || len(list) != 1 || list[0].Request != newest || list[0].Content != "a" || list[0].Digest != "sha256:a" {
			t.Fatalf("with another database: %v, %v", list, err)
		}
		f.pending(t, "a", "v2", "client", newest, true)
		if list, err := f.Repetitions(t.Context(), "v2", f.now, f.now.Add(-time.Minute), 10); err != nil || len(list) != 0 {
			t.Errorf("while it is scanned: %v, %v", list, err)
		}
		if got, err := f.FindingsOf(t.Context(), "a"); err != nil || got.Version != "v" || got.State != ScanDone {
			t.Errorf("while it is scanned: %+v, %v", got, err)
		}
		if all, repeated, err := f.PendingScans(t.Context()); err != nil || all != 1 || repeated != 1 {
			t.Errorf("%d, %d, %v", all, repeated, err)
		}
		end(&containerv1.ScanResult{Problem: "p"})
		if got, err := f.FindingsOf(t.Context(), "a"); err != nil || got.Version != "v" {
			t.Errorf("after a failure: %+v, %v", got, err)
		}
		f.pending(t, "a", "v2", "client", newest, true)
		if _, ok := f.claim(t, f.now); ok {
			t.Error("a scan that has just failed is tried again")
		}
		f.now = f.now.Add(2 * time.Minute)
		f.pending(t, "a", "v2", "client", newest, true)
		end(&containerv1.ScanResult{Counts: map[string]int32{"LOW": 2}})
		if got, err := f.FindingsOf(t.Context(), "a"); err != nil || got.Version != "v2" || got.Result.GetCounts()["LOW"] != 2 {
			t.Errorf("afterwards: %+v, %v", got, err)
		}
		if recs, err := f.ScannedBy(t.Context(), "a", f.now, 10); err != nil || len(recs) != 2 || recs[0].Key != newest {
			t.Errorf("%v, %v", recs, err)
		}
	})
}

// TestScansWaitForTheirImage checks when the image of a scan is looked up, and that scans are deleted with their requests.
func TestScansWaitForTheirImage(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		f := newScanFixture(t, db)
		id := f.request(t, "", 0)
		due := func(now time.Time) int {
			t.Helper()
			list, err := f.DueScans(t.Context(), now, now.Add(time.Minute), 10)
			if err != nil {
				t.Fatal(err)
			}
			return len(list)
		}
		if n := due(f.now); n != 0 {
			t.Errorf("%d scans are due early", n)
		}
		if err := f.WakeScans(t.Context(), "b_1", f.now); err != nil {
			t.Fatal(err)
		}
		if first, second := due(f.now), due(f.now); first != 1 || second != 0 {
			t.Errorf("after the build %d scans are due, then %d", first, second)
		}
		scan, err := f.ScanOf(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(f.WakeScan(t.Context(), scan.ID, f.now), f.LinkScan(t.Context(), scan.ID, "c", "d")); err != nil {
			t.Fatal(err)
		}
		if n := due(f.now.Add(time.Hour)); n != 0 {
			t.Errorf("%d scans are due that have their image", n)
		}
		f.pending(t, "c", "v", "client", id, false)
		if err := f.DeleteScans(t.Context(), f.now.Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Scan(t.Context(), scan.ID); err != nil {
			t.Errorf("a scan was deleted before its request: %v", err)
		}
		later := f.now.Add(2 * time.Hour)
		if _, err := f.DeleteRequests(t.Context(), later); err != nil {
			t.Fatal(err)
		}
		if err := f.DeleteScans(t.Context(), later); err != nil {
			t.Fatal(err)
		}
		_, noScan := f.Scan(t.Context(), scan.ID)
		if _, err := f.FindingsOf(t.Context(), "c"); !errors.Is(err, fault.NotFound) || !errors.Is(noScan, fault.NotFound) {
			t.Errorf("after the request was deleted: %v, %v", noScan, err)
		}
	})
}
