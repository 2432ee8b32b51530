package limits

import (
	"strconv"
	"time"
)

// Limits of a Conda artifact and its unpacked content. Any user can publish a channel.
const (
	// ArtifactEntries is the maximum number of entries of the archive, and of files that it
	// lists. ArtifactNames is the maximum length of their names together, in bytes.
	ArtifactEntries = 1_000_000
	ArtifactNames   = 128 << 20
	// ArtifactBytes is the maximum unpacked size in bytes.
	ArtifactBytes = 40 << 30
	// ArtifactRatio is the maximum compression ratio for unpacked sizes above
	// ArtifactRatioFrom bytes.
	ArtifactRatio     = 200
	ArtifactRatioFrom = 64 << 20
	// ArtifactPath is the maximum length of a file name, a link target and a prefix
	// placeholder, in bytes.
	ArtifactPath = 4096
	// ArtifactInfo is the maximum size in bytes of a file in the info folder that is read
	// completely.
	ArtifactInfo = 4 << 20
	// ArtifactScript is the maximum size of a link or activation script in bytes, and
	// ArtifactScripts the maximum number of scripts of a package.
	ArtifactScript  = 256 << 10
	ArtifactScripts = 64
	// ArtifactDirectory is the maximum size of the directory of a .conda, and
	// ArtifactWindow of its decompression window, in bytes.
	ArtifactDirectory = 1 << 20
	ArtifactWindow    = 128 << 20
	// ArtifactPacked is the maximum packed size in bytes if the channel does not specify
	// the size.
	ArtifactPacked = 10 << 30
	// WheelDirectory is the maximum size of the directory of a wheel, and WheelRecord that
	// of its list of files (RECORD), in bytes. WheelPoints is the maximum number of its
	// entry points.
	WheelDirectory = 8 << 20
	WheelRecord    = 32 << 20
	WheelPoints    = 1000
	// ArtifactsOfHost is the maximum number of concurrent downloads of a worker from one
	// host. ArtifactStall is the timeout without data, and ArtifactRest the longest
	// Retry-After of a host that a worker waits for.
	ArtifactsOfHost = 6
	ArtifactStall   = time.Minute
	ArtifactRest    = 2 * time.Minute
	// CondaLayers is the maximum number of layers for the packages of an environment.
	CondaLayers = 100
	// LayerSilence is how long a worker that builds a shared layer may send no heartbeat
	// before another worker builds the layer. LayerWait is the maximum time to wait for a
	// shared layer.
	LayerSilence = 15 * time.Second
	LayerWait    = 10 * time.Minute
	// LayerRecord is the maximum size of the record of a shared layer in bytes, and
	// LayerRecordUnpacked its uncompressed size. LayerRecords is the maximum size of all
	// records in NATS.
	LayerRecord         = 512 << 10
	LayerRecordUnpacked = 16 << 20
	LayerRecords        = 256 << 20
	// WorkerKeys is the maximum number of unexpired worker keys, and WorkerName the maximum
	// length of a worker's name in bytes. WorkerKeyRenewal is how often a worker registers
	// its key again. WorkerKeyLease is how long other workers trust the key without
	// checking whether it was revoked.
	WorkerKeys       = 10_000
	WorkerName       = 200
	WorkerKeyRenewal = time.Hour
	WorkerKeyLease   = 30 * time.Second
	// DiscardedBuilds is the page size for listing discarded builds, and
	// DiscardedBuildsInAll the maximum number that a registry holds, at 100 bytes each.
	DiscardedBuilds      = 10_000
	DiscardedBuildsInAll = 1_000_000
	// LayerMakers is the maximum number of workers that built layers of one image.
	LayerMakers = 200
	// ZtocBytes is the maximum size of a layer's zTOC: of its checkpoints, and of the headers of
	// its entries, in bytes. ZtocGzipText is the maximum length of the name and of the comment
	// of a gzip stream.
	ZtocBytes    = 256 << 20
	ZtocGzipText = 64 << 10

	// ErofsMemory is the size of the contents of an EROFS layer, in bytes, that are collected in memory
	// before they go to a temporary file. ErofsMetadata is the maximum length of what precedes the
	// contents in an EROFS layer that is read.
	ErofsMemory   = 4 << 20
	ErofsMetadata = 512 << 20
	// ZtocUnpacked is the maximum length of a layer before compression that is read for a zTOC, in
	// bytes.
	ZtocUnpacked = 64 << 30
	// ZtocLayer is the minimum size of a layer that gets a zTOC, in bytes, as in soci-snapshotter.
	ZtocLayer = 10 << 20
	// ZtocReason is the maximum length of the reason in a build's log why a layer has no zTOC, in
	// bytes.
	ZtocReason = 300
	// SociPrefetchLookups is the maximum number of lookups in layers for the files that an image with
	// a SOCI index prefetches.
	SociPrefetchLookups = 50_000_000
	// LayerKeys is the maximum number of layers in one lookup call, LayerLookups the number
	// of concurrent lookups, and LayerLookup their timeout.
	LayerKeys, LayerLookups = 1000, 16
	LayerLookup             = 5 * time.Second
	// IndexedPackages and IndexedFiles are the maximum numbers of packages and of their files
	// in the index for searches. IndexedFilesOfPackage is the maximum number of files of one
	// package, and IndexedPath the maximum length of a path, in bytes.
	IndexedPackages, IndexedFiles      = 20_000, 2_000_000
	IndexedFilesOfPackage, IndexedPath = 500, 255
	// IndexedSummary is the maximum length of a package's summary and of its home, in bytes.
	IndexedSummary = 300
	// IndexedPerCall is the number of packages that a worker reports in one call.
	IndexedPerCall = 16
	// IndexedHits is the maximum number of files that a lookup in the index finds,
	// IndexedNames that of packages which a search returns on all pages, and
	// IndexedSummaries that of packages in one lookup of summaries. IndexedVersions and
	// IndexedPaths are the maximum numbers of versions and paths of a found package.
	IndexedHits, IndexedNames     = 2000, 100
	IndexedSummaries              = 100
	IndexedVersions, IndexedPaths = 20, 5
)

// artifactRows lists the limits of a Conda artifact.
func artifactRows() []Row {
	n := strconv.Itoa
	return []Row{
		{What: "Conda artifact: entries", Bound: n(ArtifactEntries) + ", with names of " + size(ArtifactNames), Why: "the list is in memory until the package's record is written"},
		{What: "Conda artifact: length unpacked", Bound: size(ArtifactBytes) + ", and " + n(ArtifactRatio) + " times its own beyond " + size(ArtifactRatioFrom), Why: "a kilobyte can expand to any size"},
		{What: "Conda artifact: names, link targets and placeholders", Bound: size(ArtifactPath), Why: "the limit of Linux"},
		{What: "Conda artifact: index.json and link.json", Bound: size(ArtifactInfo), Why: "they are in memory as a whole"},
		{What: "Conda artifact: link and activation scripts", Bound: n(ArtifactScripts) + " of " + size(ArtifactScript), Why: "they are stored with the layer, and read for each image"},
		{What: "Conda artifact: directory of a .conda", Bound: size(ArtifactDirectory), Why: "it has three members; each takes 300 bytes of memory"},
		{What: "Conda artifact: window of its compression", Bound: size(ArtifactWindow), Why: "it is in memory while the package is read; the compressor's own limit without --long"},
		{What: "wheel: directory, and its list of files (RECORD)", Bound: size(WheelDirectory) + ", " + size(WheelRecord), Why: "they are in memory while its layer is built; the largest wheels have 20,000 files"},
		{What: "wheel: entry points", Bound: n(WheelPoints), Why: "each becomes a program"},
		{What: "Conda artifact: size if the channel does not specify it", Bound: size(ArtifactPacked), Why: "it is on the worker's disk while its layer is built"},
		{What: "Conda artifacts that a worker fetches concurrently from one host, in addition to one for each build", Bound: n(ArtifactsOfHost), Why: "channels limit the requests of an address, over all builds there"},
		{What: "Conda artifact: time without data", Bound: ArtifactStall.String(), Why: "then the download is retried: it would delay the build until its deadline"},
		{What: "wait for an overloaded host of Conda artifacts", Bound: "its Retry-After, up to " + ArtifactRest.String(), Why: "a build that would wait longer fails, and its log says when to try again"},
		{What: "layers of the packages of a Conda environment", Bound: n(CondaLayers), Why: "engines stop at 128; the smallest packages share one"},
		{What: "worker that builds a shared layer: time without a heartbeat", Bound: LayerSilence.String() + ", and " + LayerWait.String() + " in all", Why: "then a waiting worker builds the layer"},
		{
			What: "record of a layer that workers share", Bound: size(LayerRecord) + ", " + size(LayerRecordUnpacked) + " unpacked; " + size(LayerRecords) + " together, each for conda_layer_memory",
			Why: "it is a NATS message; a layer with a larger record is built by each worker",
		},
		{What: "keys of workers that sign records of layers", Bound: n(WorkerKeys) + ", each for conda_layer_memory after its last use", Why: "each start of a worker creates one; beyond the limit a new worker shares no layers"},
		{What: "images that were discarded because a worker was revoked", Bound: n(DiscardedBuildsInAll), Why: "the registry holds their builds' ids in memory; beyond the limit it serves no image that was built"},
		{What: "use of a worker's key without asking whether it has been revoked", Bound: WorkerKeyLease.String(), Why: "a revocation takes effect after that time"},
		{What: "workers that the layers in one image come from", Bound: n(LayerMakers), Why: "they are stored with the build, for `slipwayd workers revoke`; further layers are built by the worker itself"},
		{
			What: "zTOC of a layer", Bound: size(ZtocBytes) + " of checkpoints, of which each 4 MiB of the layer has one, and of headers of " + n(ImageEntries) + " files",
			Why: "it is in memory while the layer is built or read",
		},
		{What: "layer that gets a zTOC in an image with a SOCI index", Bound: "at least " + size(ZtocLayer) + "; layers that the worker has not compressed itself are read one at a time in each build", Why: "smaller layers are downloaded as fast as a part of them; it is the default of soci-snapshotter"},
		{What: "files that an image with a SOCI index prefetches", Bound: n(SociPrefetchLookups) + " lookups in layers, which together have " + n(ImageEntries) + " files, and 40 links of a path", Why: "a lookup takes about a microsecond, and a file 100 bytes of memory; the build's log states what is not prefetched"},
		{What: "table of contents of an eStargz or zstd:chunked layer", Bound: "one entry for each file of the layer, and for each 4 MiB of a file with eStargz", Why: "it is in memory while the layer is built, at about 300 bytes an entry"},
		{What: "metadata of an EROFS layer", Bound: n(ImageEntries) + " files while it is built; " + size(ErofsMetadata) + " and " + size(ImageNameBytes) + " of names when it is read", Why: "they are in memory, at about 300 bytes a file; contents of more than " + size(ErofsMemory) + " are in a temporary file until the layer is complete"},
		{What: "length of a layer before compression that is read for a zTOC", Bound: size(ZtocUnpacked), Why: "a small layer may be unpacked to any length; the image has no zTOC of a longer one"},
		{What: "name and comment of a gzip stream that is read for a zTOC", Bound: size(ZtocGzipText) + " each", Why: "the format has no limit"},
		{What: "layers that are looked up in one call", Bound: n(LayerKeys) + ", " + n(LayerLookups) + " at a time, for " + LayerLookup.String(), Why: "each is a request to NATS"},
		{
			What: "index of commands and files of packages", Bound: n(IndexedPackages) + " packages with " + n(IndexedFiles) + " files; the packages that were not used for the longest time are removed",
			Why: "a file takes about 150 bytes of the database",
		},
		{
			What: "index of commands and files: one package", Bound: n(IndexedFilesOfPackage) + " files with paths of " + n(IndexedPath) + " bytes, commands first; a summary and a home of " + n(IndexedSummary) + " bytes each",
			Why: "most packages have fewer files; some have 10,000, which are hardly searched for",
		},
		{What: "index of commands and files: packages in one report of a worker", Bound: n(IndexedPerCall), Why: "it is one gRPC message"},
		{
			What: "search by command or file", Bound: n(IndexedHits) + " files, those of the packages used last, of " + n(IndexedNames) + " packages; " + n(IndexedVersions) + " versions and " + n(IndexedPaths) + " paths of a package; for " + LayerLookup.String(),
			Why: "thousands of packages may have a file of the same name",
		},
		{What: "summaries of packages in one lookup", Bound: n(IndexedSummaries), Why: "it is the largest page of search results"},
	}
}
