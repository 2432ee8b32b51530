package store_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/container/migrations"
	"slipway.dev/services/container/store"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// TestCatalog checks the orders, the pages and the searches of the catalog, and that it only lists images
// that were built and not deleted.
func TestCatalog(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		if err := db.Migrate(t.Context(), "container", migrations.FS()); err != nil {
			t.Fatal(err)
		}
		s, now := store.New(db), time.Now().Truncate(time.Microsecond)
		id := func(n int) string { return fmt.Sprintf("%016x", n) }
		keep := func(n int, name, version, license string) error {
			_, err := s.Keep(t.Context(), store.NewKept{
				Kept: store.Kept{
					ID: id(n), Content: id(n), Name: name, Tag: version, Platform: "linux/amd64", BuildID: id(n) + "_1", Created: now.Add(time.Duration(n) * time.Second), Specs: []string{name + "=" + version, "x"},
					PackageCount: 2, Packages: []store.KeptPackage{
						{ImagePackage: store.ImagePackage{Name: name, Version: version, Kind: "conda"}, License: license, Requested: true},
						{ImagePackage: store.ImagePackage{Name: "zlib", Version: "1.3", Kind: "conda"}, License: "Zlib"},
					},
				},
				Build: &buildv1.SubmitBuildRequest{ContentId: id(n)}, Client: "user:1",
			})
			return err
		}
		for n, p := range [][3]string{1: {"samtools", "1.20", "MIT"}, 2: {"bwa", "0.7.18", "GPL-3.0-or-later"}, 3: {"samtools", "1.2", "MIT"}, 4: {"sam_100%", "1", ""}, 5: {"unbuilt", "1", ""}, 6: {"deleted", "1", ""}} {
			if n == 0 {
				continue
			}
			if err := keep(n, p[0], p[1], p[2]); err != nil {
				t.Fatal(err)
			}
			if n == 5 {
				continue
			}
			if err := s.SetKeptDigest(t.Context(), id(n), "sha256:1", 7, now); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.DeleteKept(t.Context(), id(6), "a reason", now); err != nil {
			t.Fatal(err)
		}
		if err := s.AddKeptPulls(t.Context(), map[string]int64{id(2): 5, id(1): 2, "unknown": 9}, "2026-03-01"); err != nil {
			t.Fatal(err)
		}
		if err := s.AddKeptPulls(t.Context(), map[string]int64{id(2): 1}, "2026-03-02"); err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct {
			q    store.CatalogQuery
			want []int
		}{
			"newest":               {store.CatalogQuery{}, []int{4, 3, 2, 1}},
			"most pulled":          {store.CatalogQuery{Sort: "pulls"}, []int{2, 1, 4, 3}},
			"by name":              {store.CatalogQuery{Sort: "name"}, []int{2, 4, 3, 1}},
			"a word":               {store.CatalogQuery{Words: []string{"samt"}}, []int{3, 1}},
			"two words":            {store.CatalogQuery{Words: []string{"sam", "samt"}}, []int{3, 1}},
			"a dependency":         {store.CatalogQuery{Words: []string{"zlib"}}, nil},
			"signs":                {store.CatalogQuery{Words: []string{"sam_1"}}, []int{4}},
			"a percent sign":       {store.CatalogQuery{Words: []string{"%"}}, nil},
			"a package":            {store.CatalogQuery{Package: "zlib"}, []int{4, 3, 2, 1}},
			"a version":            {store.CatalogQuery{Package: "samtools", Version: "1.2"}, []int{3}},
			"a part of a version":  {store.CatalogQuery{Package: "samtools", Version: "1"}, []int{3, 1}},
			"a licence":            {store.CatalogQuery{License: "gpl"}, []int{2}},
			"of a dependency only": {store.CatalogQuery{License: "Zlib"}, nil},
		} {
			for most := 1; most <= 4; most += 3 { // one at a time, and all at once
				q := c.q
				if q.Most = most; q.Sort == "" {
					q.Sort = "newest"
				}
				var got []int
				for {
					page, err := s.Catalog(t.Context(), q)
					if err != nil {
						t.Fatal(err)
					}
					for _, k := range page {
						var n int
						if _, err := fmt.Sscanf(k.ID, "%x", &n); err != nil || len(k.Packages) != 1 || !k.Packages[0].Requested {
							t.Fatalf("%s: %+v, %v", name, k, err)
						}
						got, q.After = append(got, n), k.ID
					}
					if len(page) < most {
						break
					}
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("%s, %d at a time: %v instead of %v", name, most, got, c.want)
				}
			}
		}
		if err := s.MayKeep(t.Context(), id(6), 0, "user:1"); !errors.Is(err, fault.Conflict) {
			t.Errorf("keeping a deleted image again: %v", err)
		}
		for _, n := range []int{1, 7} {
			if err := s.MayKeep(t.Context(), id(n), 0, "user:1"); err != nil {
				t.Errorf("keeping %d: %v", n, err)
			}
		}
		other, err := s.Keep(t.Context(), store.NewKept{
			Kept: store.Kept{ID: id(1), Content: id(1), Name: "other", Tag: "2", BuildID: id(1) + "_2", Created: now.Add(time.Hour)}, Build: &buildv1.SubmitBuildRequest{},
		})
		if err != nil || other.Name != "samtools" || other.Tag != "1.20" || other.BuildID != id(1)+"_2" || !other.Created.Equal(now.Add(time.Second)) {
			t.Errorf("keeping an image again: %+v, %v", other, err)
		}
		k, err := s.Kept(t.Context(), id(2))
		if err != nil || k.Pulls != 6 || k.LastPull != "2026-03-02" || !slices.Equal(k.Specs, []string{"bwa=0.7.18", "x"}) || !k.Created.Equal(now.Add(2*time.Second)) || k.Size != 7 {
			t.Errorf("%+v, %v", k, err)
		}
		if pulls, err := s.KeptPulls(t.Context(), id(2), "2026-03-02"); err != nil || len(pulls) != 1 || pulls[0].Pulls != 1 {
			t.Errorf("%v, %v", pulls, err)
		}
		if b, err := s.KeptBuild(t.Context(), id(2)); err != nil || b.GetContentId() != id(2) {
			t.Errorf("%v, %v", b, err)
		}
		if unbuilt, err := s.Unbuilt(t.Context(), now.Add(time.Hour)); err != nil || len(unbuilt) != 1 || unbuilt[0].ID != id(5) {
			t.Errorf("images that were never built: %+v, %v", unbuilt, err)
		}
		for _, n := range []int{1, 5, 6} {
			if err := s.DeleteUnbuilt(t.Context(), id(n), now.Add(time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.DeleteKeptPulls(t.Context(), "2026-03-02"); err != nil {
			t.Fatal(err)
		}
		if pulls, err := s.KeptPulls(t.Context(), id(2), ""); err != nil || len(pulls) != 1 {
			t.Errorf("%v, %v", pulls, err)
		}
		for n, want := range map[int]bool{1: true, 5: false, 6: true} {
			if _, err := s.Kept(t.Context(), id(n)); (err == nil) != want {
				t.Errorf("after the deletion of images that were never built, %d: %v", n, err)
			}
		}
		if err := s.DeleteKept(t.Context(), id(5), "", now); !errors.Is(err, fault.NotFound) {
			t.Errorf("deleting an unknown image: %v", err)
		}
	})
}

// TestCatalogOfOrganizations keeps an image for everyone and for two organisations. Each must have a name of its own, in its own
// list, and an organisation must get another one after the deletion of its name.
func TestCatalogOfOrganizations(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		if err := db.Migrate(t.Context(), "container", migrations.FS()); err != nil {
			t.Fatal(err)
		}
		s, now := store.New(db), time.Now().Truncate(time.Microsecond)
		const content = "00000000000000aa"
		keep := func(id string, organization int64) store.Kept {
			t.Helper()
			if err := s.MayKeep(t.Context(), content, organization, "user:1"); err != nil {
				t.Fatal(err)
			}
			k, err := s.Keep(t.Context(), store.NewKept{
				Kept:  store.Kept{ID: id, Content: content, Organization: organization, Name: "samtools", Tag: "1", BuildID: content + "_1", Created: now},
				Build: &buildv1.SubmitBuildRequest{},
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.SetKeptDigest(t.Context(), k.ID, "sha256:1", 1, now); err != nil {
				t.Fatal(err)
			}
			return k
		}
		listed := func(organization int64) (ids []string) {
			t.Helper()
			page, err := s.Catalog(t.Context(), store.CatalogQuery{Organization: organization, Sort: "newest", Most: 10})
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range page {
				if k.Organization != organization {
					t.Errorf("the list of %d has an image of %d", organization, k.Organization)
				}
				ids = append(ids, k.ID)
			}
			return ids
		}
		for _, c := range []struct {
			id           string
			organization int64
			want         string
		}{{content, 0, content}, {"org-a", 7, "org-a"}, {"org-b", 7, "org-a"}, {"org-c", 8, "org-c"}, {content, 0, content}} {
			if got := keep(c.id, c.organization).ID; got != c.want {
				t.Errorf("%d keeps the image as %s instead of %s", c.organization, got, c.want)
			}
		}
		if err := s.DeleteKept(t.Context(), "org-a", "leaked", now); err != nil {
			t.Fatal(err)
		}
		if got := keep("org-d", 7).ID; got != "org-d" {
			t.Errorf("after the deletion of its name, the organisation keeps the image as %s", got)
		}
		for organization, want := range map[int64][]string{0: {content}, 7: {"org-d"}, 8: {"org-c"}, 9: nil} {
			if got := listed(organization); !slices.Equal(got, want) {
				t.Errorf("the list of %d is %q instead of %q", organization, got, want)
			}
		}
		if k, err := s.Kept(t.Context(), "org-a"); err != nil || k.Deletion != "leaked" {
			t.Errorf("the deleted name: %+v, %v", k, err)
		}
	})
}
