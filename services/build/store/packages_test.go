package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/build/migrations"
	"slipway.dev/services/build/store"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

const forge, bio = "https://conda.example/conda-forge", "https://conda.example/bioconda"

// indexed returns a package with files.
func indexed(channel, name, version string, files ...string) store.IndexedPackage {
	file := name + "-" + version + "-0.conda"
	return store.IndexedPackage{
		PackageKey: store.PackageKey{Channel: channel, Subdir: "linux-64", FileName: file, SHA256: fmt.Sprintf("%064x", file)[:64]},
		Name:       name, Files: files, Worker: "w", About: &buildv1.PackageSummary{Summary: name + " " + version, Home: "https://" + name + ".example", License: "MIT"},
	}
}

// packageIndex returns the tables, and a function that searches them and returns
// "name version path" for each file.
func packageIndex(t *testing.T, db *sqldb.DB) (store.Store, func(path string, channels ...string) []string) {
	t.Helper()
	if err := db.Migrate(t.Context(), "build", migrations.FS()); err != nil {
		t.Fatal(err)
	}
	s := store.New(db)
	return s, func(path string, channels ...string) (out []string) {
		t.Helper()
		found, err := s.FindFile(t.Context(), channels, path)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			out = append(out, strings.TrimSuffix(f.GetFileName(), "-0.conda")+" "+f.GetPath())
		}
		return out
	}
}

// TestPackageIndex checks that packages are found by the name and by the path of a file, in
// the channels of the search only, the most recently used first.
func TestPackageIndex(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		s, find := packageIndex(t, db)
		ctx, now := t.Context(), time.Now().Truncate(time.Microsecond)
		old := indexed(bio, "bcftools", "1.20", "bin/bcftools", "bin/vcfutils.pl", "share/man/bcftools")
		all := []store.IndexedPackage{old, indexed(bio, "bcftools", "1.21", "bin/bcftools", "bin/bcftools", "top"), indexed(forge, "other", "1", "bin/bcftools")}
		for i, p := range all {
			if err := s.PutPackage(ctx, p, now.Add(time.Duration(i)*time.Minute)); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range []struct {
			path     string
			channels []string
			want     []string
		}{
			{"bin/bcftools", []string{bio, forge}, []string{"other-1 bin/bcftools", "bcftools-1.21 bin/bcftools", "bcftools-1.20 bin/bcftools"}},
			{"bin/bcftools", []string{bio}, []string{"bcftools-1.21 bin/bcftools", "bcftools-1.20 bin/bcftools"}},
			{"bcftools", []string{bio}, []string{"bcftools-1.21 bin/bcftools", "bcftools-1.20 bin/bcftools", "bcftools-1.20 share/man/bcftools"}},
			{"top", []string{bio}, []string{"bcftools-1.21 top"}},
			{"bin/top", []string{bio}, nil},
			{"bin/bcf%", []string{bio}, nil},
			{"bin/bcftools", []string{"https://conda.example/private"}, nil},
		} {
			if diff := cmp.Diff(c.want, find(c.path, c.channels...)); diff != "" {
				t.Errorf("%s in %v (-want +got):\n%s", c.path, c.channels, diff)
			}
		}
		if got, err := s.Summary(ctx, bio, "bcftools"); err != nil || got.GetSummary() != "bcftools 1.21" || got.GetHome() == "" || got.GetLicense() != "MIT" {
			t.Errorf("the summary is %v, %v", got, err)
		}
		if got, err := s.Summary(ctx, forge, "bcftools"); err != nil || got.GetSummary() != "" {
			t.Errorf("the summary in another channel is %v, %v", got, err)
		}

		// A later use counts, and an artifact that was replaced in its channel is not known.
		replaced := all[1].PackageKey
		replaced.SHA256 = strings.Repeat("0", 64)
		missing, err := s.Unindexed(ctx, []store.PackageKey{replaced, old.PackageKey}, now.Add(25*time.Hour))
		if diff := cmp.Diff([]store.PackageKey{replaced}, missing); diff != "" || err != nil {
			t.Errorf("missing are %v\n%s", err, diff)
		}
		if got := find("bin/bcftools", bio); len(got) != 2 || got[0] != "bcftools-1.20 bin/bcftools" {
			t.Errorf("after another use there are %v", got)
		}
		other := all[1]
		other.SHA256, other.Files = replaced.SHA256, []string{"bin/renamed"}
		if err := s.PutPackage(ctx, other, now.Add(26*time.Hour)); err != nil {
			t.Fatal(err)
		}
		if got := slices.Concat(find("bin/renamed", bio), find("bin/bcftools", bio)); !slices.Equal(got, []string{"bcftools-1.21 bin/renamed", "bcftools-1.20 bin/bcftools"}) {
			t.Errorf("after the replacement there are %v", got)
		}
	})
}

// TestPackageIndexIsBounded checks that the least recently used packages are removed with
// their files, and that a package may have as many files as the limit.
func TestPackageIndexIsBounded(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		s, find := packageIndex(t, db)
		ctx, now := t.Context(), time.Now()
		for i := range 5 {
			if err := s.PutPackage(ctx, indexed(bio, "p", fmt.Sprint(i), "bin/p", "lib/p"), now.Add(time.Duration(i)*time.Minute)); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range []struct{ packages, files, left int }{{5, 10, 5}, {4, 10, 4}, {4, 5, 2}, {1, 1, 0}} {
			if err := s.TrimPackages(ctx, c.packages, c.files); err != nil {
				t.Fatal(err)
			}
			got := find("lib/p", bio)
			if len(got) != c.left || c.left > 0 && got[0] != "p-4 lib/p" {
				t.Errorf("of %d packages with %d files there are left %v", c.packages, c.files, got)
			}
		}
		if has, err := db.HasRows(ctx, "build_package_files"); err != nil || has {
			t.Errorf("files are left: %v, %v", has, err)
		}
		var many []string
		for i := range limits.IndexedFilesOfPackage {
			many = append(many, fmt.Sprintf("bin/%d", i))
		}
		if err := s.PutPackage(ctx, indexed(bio, "many", "1", many...), now); err != nil {
			t.Fatal(err)
		}
		if got := find(many[len(many)-1], bio); len(got) != 1 {
			t.Errorf("of many files the last is in %v", got)
		}
	})
}

// TestRevokedWorkersAreNotIndexed checks that the packages of a revoked worker are removed
// from the index, and no others.
func TestRevokedWorkersAreNotIndexed(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		s, find := packageIndex(t, db)
		ctx, now := t.Context(), time.Now()
		evil := indexed(bio, "evil", "1", "bin/ls")
		evil.Worker = "evil"
		for _, p := range []store.IndexedPackage{evil, indexed(bio, "good", "1", "bin/ls")} {
			if err := s.PutPackage(ctx, p, now); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := s.RevokeWorker(ctx, "evil", "revoked", now); err != nil {
			t.Fatal(err)
		}
		if got := find("bin/ls", bio); !slices.Equal(got, []string{"good-1 bin/ls"}) {
			t.Errorf("after the revocation there are %v", got)
		}
	})
}
