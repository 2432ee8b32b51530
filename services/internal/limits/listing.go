package limits

import (
	"strconv"
	"time"
)

// Limits of reading a layer to list its files, and of caching the listing.
const (
	// ListedPacked and ListedBytes are the maximum packed and unpacked sizes in bytes of a
	// layer whose files are listed. ListedEntries is its maximum number of entries,
	// ListedPath the maximum length of a path or link target in bytes, and ListedTime the
	// timeout for reading it.
	ListedPacked, ListedBytes = 2 << 30, 8 << 30
	ListedEntries, ListedPath = 1_000_000, 4096
	ListedTime                = 50 * time.Second
	// ListedAtOnce is the number of layers that one process reads concurrently, and
	// ListedAtOnceClient that for one client. ListedWait is how long a request waits, and
	// ListedWaiting and ListedWaitingClient are the maximum numbers of waiting requests in
	// total and for one client.
	ListedAtOnce, ListedAtOnceClient   = 4, 2
	ListedWait                         = 10 * time.Second
	ListedWaiting, ListedWaitingClient = 200, 10
	// ListedCharge is the number of bytes of a layer, packed or unpacked, for which a
	// listing counts as one more pull.
	ListedCharge = 100 << 20
	// ListingUsually and ListingMost are the default and maximum number of files of a page,
	// and ListingPage is the maximum total length of their names in bytes. ListingFilter is
	// the maximum length of a filter, and ListingToken that of a page token.
	ListingUsually, ListingMost, ListingPage = 1000, 10_000, 4 << 20
	ListingFilter, ListingToken              = 256, 32 << 10
	// ListingKept is the maximum size of a cached listing, and ListingsKept that of all
	// cached listings, in bytes.
	ListingKept, ListingsKept = 16 << 20, 64 << 20
	// ImageLocks is the maximum total size in bytes of the locks that one call reads from an
	// image, and ImageLockPacked that of a layer with a lock. ImageLockPackages is the maximum
	// number of packages of a lock, ImageLockEntries that of the entries of the layer, and
	// ImageLockPlatforms that of the platforms of an image.
	ImageLocks, ImageLockPacked         = 16 << 20, 8 << 20
	ImageLockPackages, ImageLockEntries = 10_000, 1000
	ImageLockPlatforms                  = 10
	// InspectedIndex is the maximum size in bytes of the index of an environment without an image whose lock is read, and
	// InspectedIndexRaw that of the index before compression.
	InspectedIndex, InspectedIndexRaw = 16 << 20, 64 << 20
	// ImageRecords is the maximum number of records of installed packages that
	// one call reads from an image, ImageRecord the maximum size of one in bytes, ImageRecordField
	// that of a member that is returned, and ImageRecordDepth the maximum number of folders above a
	// record. The members that are returned have at most ImageLocks bytes in total.
	ImageRecords, ImageRecord          = 10_000, 16 << 20
	ImageRecordField, ImageRecordDepth = 2000, 12
	// SBOM is the maximum size of a bill of materials in bytes. ContentsKept is the maximum size in bytes of
	// the cached records of images, and that of the cached records of base images.
	SBOM, ContentsKept = 32 << 20, 32 << 20
	// SBOMEstimate is the maximum size of a bill of materials in bytes as estimated before it is written.
	SBOMEstimate = 48 << 20
)

// listingRows lists the limits of listing the files of a layer.
func listingRows() []Row {
	n := strconv.Itoa
	return []Row{
		{What: "layer whose files are listed", Bound: size(ListedPacked) + ", unpacked " + size(ListedBytes) + ", " + n(ListedEntries) + " entries", Why: "all of it is read while the client waits; it is not stored"},
		{What: "time to read a layer whose files are listed", Bound: ListedTime.String(), Why: "calls have a timeout of one minute"},
		{What: "path or link target in a listing", Bound: size(ListedPath), Why: "no file system has longer ones, but archives can"},
		{What: "layers that one process reads concurrently to list their files", Bound: n(ListedAtOnce) + ", one of them for users only, " + n(ListedAtOnceClient) + " for one client; " + n(ListedWaiting) + " wait, " + n(ListedWaitingClient) + " of one client", Why: "each takes a processor and up to " + size(ListingKept+ListingPage) + "; clients get equal shares, and a request that waits longer than " + ListedWait.String() + " fails with 503"},
		{What: "listing of a layer", Bound: "a pull, and one for each " + size(ListedCharge) + " of the layer, as stored or unpacked", Why: "it costs as much; a cached listing costs one pull"},
		{What: "files in one response", Bound: n(ListingMost) + ", with " + size(ListingPage) + " of names", Why: "they are in memory, several times while the response is written"},
		{What: "lock of Conda packages that is read from an image", Bound: size(ImageLocks) + ", for all platforms together, " + n(ImageLockPackages) + " packages and " + n(ImageLockPlatforms) + " platforms; in a layer of " + size(ImageLockPacked) + " and " + n(ImageLockEntries) + " entries", Why: "anybody can push an image with such a layer; it is in memory while the response is written"},
		{What: "index of an environment without an image whose lock is read", Bound: size(InspectedIndex) + ", unpacked " + size(InspectedIndexRaw), Why: "it is in memory as a whole; 50,000 files take 8 MB"},
		{What: "records of installed packages that are read from an image", Bound: n(ImageRecords) + ", each of " + size(ImageRecord) + ", " + n(ImageRecordField) + " bytes of each member and " + size(ImageLocks) + " of all, for all platforms together, below at most " + n(ImageRecordDepth) + " folders; in layers of " + size(ListedPacked) + ", unpacked " + size(ListedBytes) + " and " + n(ListedEntries) + " entries, for all layers and platforms together, within " + ListedTime.String() + " for each platform", Why: "all layers are read while the client waits; a record has the list of the package's files, which is not returned"},
		{What: "bill of materials", Bound: size(SBOM), Why: "it is in memory while it is written; 10,000 packages have some 15 MiB"},
		{What: "cached records of installed packages for bills of materials", Bound: "twice " + size(ContentsKept), Why: "the layers of other images are read again"},
		{What: "cached listings", Bound: size(ListingsKept) + ", each up to " + size(ListingKept), Why: "a larger layer is read again for each page"},
	}
}
