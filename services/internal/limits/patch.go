package limits

import (
	"strconv"
	"time"
)

// Limits of the index of packages in images, and of patches of images.
const (
	// LockedBuilds is the maximum number of builds whose packages one call returns.
	LockedBuilds = 100
	// IndexEvery is how often requests without indexed packages are looked for. IndexWait is how
	// long a list waits for the next LockedBuilds builds to be indexed before it responds.
	IndexEvery = 5 * time.Second
	IndexWait  = time.Second
	// OutdatedUsually and OutdatedMost are the default and maximum number of images of a page.
	OutdatedUsually, OutdatedMost = 100, 1000
	// OutdatedVersions is the maximum number of versions below a version.
	OutdatedVersions = 20_000
	// PatchPackages is the maximum number of packages that a patch exchanges, PatchAlso that of
	// the packages that may also change, and PackageField the maximum length of a name, a version
	// or a specification of a package.
	PatchPackages, PatchAlso, PackageField = 100, 1000, 200
	// PatchChanges is the maximum number of changes in the event of a patch, and PatchChange the
	// maximum length of one in bytes; others are omitted.
	PatchChanges, PatchChange = 100, 400
)

// patchRows lists the limits of patches.
func patchRows() []Row {
	n := strconv.Itoa
	return []Row{
		{What: "patch of an image", Bound: n(PatchPackages) + " packages, and " + n(PatchAlso) + " that may also change, of " + n(PackageField) + " characters each", Why: "all are solved while the client waits"},
		{What: "list of images with an outdated package", Bound: n(OutdatedUsually) + " images a page, at most " + n(OutdatedMost) + "; " + n(OutdatedVersions) + " versions of the package", Why: "a page is one query and one response"},
	}
}
