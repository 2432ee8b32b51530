package store_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/container/migrations"
	"slipway.dev/services/container/store"
	"slipway.dev/services/container/tokens"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// TestPackageIndex checks which requests the index finds for users, workspaces and all callers, that
// frozen images do not expire, and that packages are deleted with their last request.
func TestPackageIndex(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		if err := db.Migrate(t.Context(), "container", migrations.FS()); err != nil {
			t.Fatal(err)
		}
		s, now := store.New(db), time.Now().Truncate(time.Microsecond)
		ada := &platformv1.Identity{Endpoint: "https://p", UserId: 1}
		lab := &platformv1.Identity{Endpoint: "https://p", UserId: 1, WorkspaceId: 7}
		bob := &platformv1.Identity{Endpoint: "https://p", UserId: 2}
		n := 0
		add := func(who *platformv1.Identity, life time.Duration, frozen bool, packages ...store.ImagePackage) string {
			t.Helper()
			n++
			r := store.Record{Created: now.Add(time.Duration(n) * time.Second), Expires: now.Add(life), Request: &containerv1.ContainerRequest{},
				Plan: &containerv1.Plan{Token: tokens.New(), Identity: who, BuildId: fmt.Sprintf("b_%d", n), Frozen: frozen}}
			if err := s.Insert(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			r.Key = tokens.IDOf(r.Plan.GetToken())
			if packages == nil {
				return r.Key
			}
			if err := s.IndexPackages(t.Context(), r.Plan.GetBuildId(), packages, true, now); err != nil {
				t.Fatal(err)
			}
			return r.Key
		}
		ssl := func(version string) store.ImagePackage {
			return store.ImagePackage{Name: "ssl", Version: version, Kind: "conda"}
		}
		other := store.ImagePackage{Name: "other", Version: "3", Kind: "pypi"}
		first := add(ada, time.Hour, false, ssl("3"), other)
		add(ada, time.Hour, false, ssl("4"))
		add(ada, -time.Hour, false, ssl("3")) // expired
		frozen := add(ada, -time.Hour, true, ssl("3"), ssl("2"))
		ofLab := add(lab, time.Hour, false, ssl("3"), other)
		ofBob := add(bob, time.Hour, false, ssl("3"))
		anonymous := add(nil, time.Hour, false, ssl("3"))
		add(ada, time.Hour, false)
		for name, c := range map[string]struct {
			owner     *platformv1.Identity
			workspace int64
			want      []string
		}{
			"ada": {ada, 0, []string{ofLab, frozen, first}}, "ada in a workspace": {ada, 7, []string{ofLab}}, "a token of a workspace": {lab, 0, []string{ofLab}},
			"bob": {bob, 0, []string{ofBob}}, "all": {nil, 0, []string{anonymous, ofBob, ofLab, frozen, first}}, "all in a workspace": {nil, 7, []string{ofLab}},
		} {
			start, err := store.ParsePosition("")
			if err != nil {
				t.Fatal(err)
			}
			q := store.ImageQuery{Owner: c.owner, Workspace: c.workspace, Name: "ssl", Versions: []string{"2", "3"}, From: start, Most: 10, Now: now}
			got, err := s.WithPackage(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			var ids []string
			for _, r := range got {
				ids = append(ids, r.Key)
				if r.Key == frozen && !slices.Equal(r.Packages, []store.ImagePackage{ssl("2"), ssl("3")}) {
					t.Errorf("the packages are %v", r.Packages)
				}
			}
			if !slices.Equal(ids, c.want) {
				t.Errorf("%s: %v, want %v", name, ids, c.want)
			}
		}
		left, err := s.Unindexed(t.Context(), "")
		if err != nil || len(left) != 1 || left[0] != fmt.Sprintf("b_%d", n) {
			t.Errorf("not indexed are %v, %v", left, err)
		}
		if n, err := s.CountUnindexed(t.Context(), ada, now); err != nil || n != 1 {
			t.Errorf("%d are not indexed, %v", n, err)
		}
		if n, err := s.CountUnindexed(t.Context(), bob, now); err != nil || n != 0 {
			t.Errorf("%d of Bob are not indexed, %v", n, err)
		}
		if got, err := s.Versions(t.Context(), bob, "ssl"); err != nil || !slices.Equal(got, []string{"3"}) {
			t.Errorf("Bob's versions are %v, %v", got, err)
		}
		fixed := add(ada, time.Hour, false, ssl("5"))
		for by, want := range map[string]string{ofBob: "", fixed: fixed} { // the former is outdated itself
			if err := s.SetReplaced(t.Context(), first, by); err != nil {
				t.Fatal(err)
			}
			start, _ := store.ParsePosition("")
			got, err := s.WithPackage(t.Context(), store.ImageQuery{Owner: ada, Name: "ssl", Versions: []string{"2", "3"}, From: start, Most: 10, Now: now})
			if err != nil || got[len(got)-1].Key != first || got[len(got)-1].ReplacedBy != want {
				t.Errorf("replaced by %s: %v, %v", by, got, err)
			}
		}
		if got, err := s.Versions(t.Context(), nil, "ssl"); err != nil || len(got) != 4 {
			t.Errorf("the versions are %v, %v", got, err)
		}
		if _, err := s.DeleteRequests(t.Context(), now.Add(2*time.Hour)); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			before time.Time
			want   int
		}{{now, 4}, {now.Add(time.Second), 0}} {
			if more, err := s.DeletePackages(t.Context(), c.before); err != nil || more {
				t.Errorf("more: %v, %v", more, err)
			}
			if got, err := s.Versions(t.Context(), nil, "ssl"); err != nil || len(got) != c.want {
				t.Errorf("the versions are %v, %v", got, err)
			}
		}
	})
}
