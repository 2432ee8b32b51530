package conda

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	"slipway.dev/services/conda/packages/layering"
	"slipway.dev/services/internal/limits"
)

// index reports the packages of a pushed image to the build service, as far as its index for
// searches lacks them. A failure only affects searches, and the next build of the packages
// reports them again.
func (e *environment) index(ctx context.Context, packages []layering.Package) {
	if err := e.report(ctx, packages); err != nil {
		e.out.Print("", "The files of the packages could not be added to the index for searches; the next build of them tries again")
	}
}

func (e *environment) report(ctx context.Context, packages []layering.Package) error {
	missing, err := e.o.Work.ListUnindexedPackages(ctx, &buildv1.ListUnindexedPackagesRequest{Ticket: e.job.Ticket})
	if err != nil {
		return fmt.Errorf("asking which packages the index lacks: %w", err)
	}
	var contents []*buildv1.PackageContent
	for i, r := range e.records {
		if r.SHA256 != "" && slices.Contains(missing.GetSha256(), r.SHA256) {
			contents = append(contents, contentOf(r.SHA256, packages[i]))
		}
	}
	for some := range slices.Chunk(contents, limits.IndexedPerCall) {
		if _, err := e.o.Work.IndexPackages(ctx, &buildv1.IndexPackagesRequest{Ticket: e.job.Ticket, Packages: some}); err != nil {
			return fmt.Errorf("adding packages to the index: %w", err)
		}
	}
	return nil
}

func contentOf(sha256 string, p layering.Package) *buildv1.PackageContent {
	return &buildv1.PackageContent{
		Sha256: sha256, Files: indexedFiles(p.Paths),
		About: &buildv1.PackageSummary{Summary: p.About.Summary, Home: p.About.Home, License: p.About.License},
	}
}

// indexedFiles returns the files of a package that users may search for, at most
// limits.IndexedFilesOfPackage: commands first, then those with the fewest parent folders.
// Python modules are left out, since their path depends on the version of Python.
func indexedFiles(paths []string) []string {
	var out []string
	for _, name := range paths {
		if isIndexed(name) {
			out = append(out, name)
		}
	}
	slices.SortFunc(out, func(a, b string) int {
		if d := distance(a) - distance(b); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	return out[:min(len(out), limits.IndexedFilesOfPackage)]
}

func isIndexed(name string) bool {
	return fs.ValidPath(name) && name != "." && len(name) <= limits.IndexedPath && utf8.ValidString(name) && // folders end with "/"
		!strings.HasPrefix(name, "conda-meta/") && !strings.Contains("/"+name, "/site-packages/") &&
		!strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
}

// distance orders files: 0 for a command, or else the number of parent folders plus 1.
func distance(name string) int {
	n := strings.Count(name, "/")
	if n == 1 && strings.HasPrefix(name, "bin/") {
		return 0
	}
	return n + 1
}
