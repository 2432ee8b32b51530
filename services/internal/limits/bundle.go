package limits

import "strconv"

// Limits of a bundle, which another person may have made.
const (
	// BundleIndex is the maximum size of its index.json, and BundleRecord that of its record
	// with the locks of packages, in bytes.
	BundleIndex, BundleRecord = 64 << 20, 512 << 20
	// BundleNames is the maximum number of names of images, and BundleName the maximum length
	// of one in bytes.
	BundleNames, BundleName = 50_000, 1024
	// BundleManifests is the maximum number of manifests, BundleDocuments their maximum total
	// size in bytes, and BundleDepth the maximum length of a chain of references.
	BundleManifests, BundleDocuments, BundleDepth = 200_000, 1 << 30, 8
	// BundleDigests is the maximum number of digests of blobs in the record of a bundle.
	BundleDigests = 2_000_000
	// BundleFiles is the maximum number of files in a bundle that is one file.
	BundleFiles = 2_000_000
	// BundleFolders is the maximum number of folders and files that are used together.
	BundleFolders = 100
	// LockRecords is the maximum number of containers, and of locks of packages, in a slipway.lock, and
	// LockRecordBytes the maximum size of the records of containers without the locks, in bytes.
	LockRecords, LockRecordBytes = 50_000, 64 << 20
	// BundleImages and BundleBlobs are the numbers of images and of blobs of each image that
	// are copied concurrently.
	BundleImages, BundleBlobs = 4, 3
)

// bundleRows lists the limits of bundles.
func bundleRows() []Row {
	n := strconv.Itoa
	return []Row{
		{What: "bundle: index.json, and the record with the locks of packages", Bound: size(BundleIndex) + ", " + size(BundleRecord), Why: "the command line has them in memory as a whole"},
		{What: "bundle: names of images", Bound: n(BundleNames) + " of " + size(BundleName), Why: "`slipway bundle serve` has all of them in memory"},
		{What: "bundle: digests of blobs in the record", Bound: n(BundleDigests), Why: "all are read before a bundle is served, verified or loaded"},
		{What: "bundle: manifests", Bound: n(BundleManifests) + ", " + size(BundleDocuments) + ", " + n(BundleDepth) + " deep", Why: "all are read before a bundle is served, verified or loaded"},
		{What: "bundle: files in one tar file", Bound: n(BundleFiles), Why: "all headers are read before a bundle is served, verified or loaded"},
		{What: "bundle: folders that are used together", Bound: n(BundleFolders), Why: "each blob is looked up in all"},
		{What: "slipway.lock: containers", Bound: n(LockRecords) + ", " + size(LockRecordBytes), Why: "the command line has all of them in memory"},
		{What: "bundle: images that are copied concurrently", Bound: n(BundleImages) + " with " + n(BundleBlobs) + " blobs each", Why: "registries limit the connections of an address"},
	}
}
