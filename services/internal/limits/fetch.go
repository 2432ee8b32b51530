package limits

import (
	"strconv"
	"time"
)

// Limits of what is read from registries.
const (
	// Document is the maximum size of a manifest, index or image config in bytes. The
	// distribution specification requires registries to accept at least this size.
	Document = 4 << 20
	// DocumentDepth is the maximum nesting of a document's JSON, and DocumentValues its
	// maximum number of values.
	DocumentDepth, DocumentValues = 32, 1 << 15
	// DocumentMembers is the maximum number of members of a JSON object that is modified.
	DocumentMembers = 256
	// IndexEntries is the maximum number of entries of an index.
	IndexEntries = 128
	// ImageLayers is the maximum number of layers of a manifest.
	ImageLayers = 512
	// ArtifactLayers is the maximum number of layers of the manifest of an artifact that is not a
	// container image.
	ArtifactLayers = MountPackages + 1
	// ImagesChanged is the maximum number of images of an index that are modified.
	ImagesChanged = 32
	// ImageDocuments is the maximum total size in bytes of the documents of one image that
	// is modified or inspected: an index with all manifests and configs that are read.
	ImageDocuments = 16 << 20
	// DocumentsAtOnce is the maximum total size in bytes of the documents larger than
	// SmallDocument that one process reads concurrently. DocumentsWait is how long a read
	// waits, and DocumentsWaiting the maximum number of waiting reads.
	DocumentsAtOnce = 64 << 20
	SmallDocument   = 64 << 10
	DocumentsWait   = 10 * time.Second

	DocumentsWaiting = 1000
	// TokenAnswer is the maximum size of a response of a token service. ErrorAnswer is how
	// much of an error response is read. Both are in bytes.
	TokenAnswer, ErrorAnswer = 1 << 20, 64 << 10
	// AnswerHeader is the maximum size of a response header, in bytes.
	AnswerHeader = 128 << 10
	// Redirects is the maximum number of redirects of one request, and RedirectURL the
	// maximum length of their URLs in bytes.
	Redirects, RedirectURL = 5, 8 << 10
	// Referrers is the maximum number of listed referrers of a manifest, and ReferrerPages
	// the maximum number of pages that are read for it.
	Referrers, ReferrerPages = 1000, 8
	// WalkManifests is the maximum number of manifests of an image that are searched for a
	// digest. ImageBlobs is the maximum number of blobs that an image refers to.
	WalkManifests, ImageBlobs = 256, 1 << 15
	// SourceLookup is the timeout for looking up the image of a request at its registry in
	// all attempts, and SourceTry the timeout of the first attempt.
	SourceLookup, SourceTry = 5 * time.Second, 2 * time.Second
	// TagAnswers is the maximum number of cached tag lookups; each login has its own
	// entries.
	TagAnswers = 20_000
	// BlobCacheShare is the minimum number of blobs that fit into blob_cache_size.
	BlobCacheShare = 4
	// KeptBlob is the maximum size of blobs that upstream_cache keeps as documents, in bytes.
	// DocumentCharge is what each document counts towards blob_cache_size, in addition to its
	// length. TagRecord is the maximum size of the record of a tag, and TagRecordAge how old it may
	// become before it is written again unchanged.
	KeptBlob, DocumentCharge, TagRecord, TagRecordAge = BucketBlobLeast, 4 << 10, 1 << 10, time.Hour
	// ReadGrants is the maximum number of cached permissions of logins to read something.
	ReadGrants = 50_000
	// StaleAfter is how long a registry is waited for if its answer is known; it is shorter than
	// SourceTry. After it did not answer, or as long as it demands, but at least OutagePause and at
	// most OutagePauseMost, it is not asked about what is known. Outages is the maximum number of
	// repositories, by login, that this is remembered of. OutageLog is how often it is logged of a
	// registry.
	StaleAfter, OutagePause, OutagePauseMost = 1500 * time.Millisecond, 10 * time.Second, 5 * time.Minute
	Outages, OutageLog                       = 10_000, time.Minute
	// BucketDocuments is the maximum number of documents that wait to be uploaded to a bucket, and
	// BucketDocumentBytes their maximum total size.
	BucketDocuments, BucketDocumentBytes = 256, 32 << 20
	// BucketBlobLeast and BucketBlobMost are the minimum and maximum size in bytes of a
	// blob in a bucket. BucketBlobs is the maximum number of blobs in a bucket.
	BucketBlobLeast, BucketBlobMost, BucketBlobs = 64 << 10, 5_000_000_000, 200_000
	// BucketURL is the lifetime of a presigned URL of a blob in a bucket. BucketUse is the
	// resolution at which the last use of a blob is recorded.
	BucketURL, BucketUse = 5 * time.Minute, time.Hour
	// BucketUploads is the maximum number of concurrent uploads of a process to a bucket,
	// BucketUpload the timeout of an upload, and BucketCommit the timeout of its
	// completion. After uploading 1/BucketUnseen of blob_cache_size, a process lists the
	// bucket again.
	BucketUploads, BucketUpload, BucketCommit, BucketUnseen = 16, time.Hour, time.Minute, 16
	// BucketHold is how long a bucket may delay a client, plus one second for each
	// BucketRate bytes. BucketBackoff is how long a failing bucket is not used.
	BucketHold, BucketRate, BucketBackoff = time.Second, 32 << 20, 30 * time.Second
	// BlobResumeWindow is how long, and BlobResumptions how often, an interrupted download of a
	// blob is resumed.
	BlobResumeWindow, BlobResumptions = 30 * time.Second, 5
	// BlobRanges is the maximum number of ranges of one request for a blob. They are fetched from
	// another registry in at most BlobSpans requests, of which BlobSpansAhead are sent before they
	// are read. Ranges with at most BlobGap bytes between them are fetched together.
	BlobRanges, BlobSpans, BlobSpansAhead, BlobGap = 1024, 128, 4, 64 << 10
	// MirrorManifests is the maximum number of manifests that a mirror copies, MirrorDocuments
	// their maximum total size in bytes, and MirrorDepth how deep indexes and referrers may be
	// nested. MirrorBlobs is the number of blobs that one mirror copies at a time, and
	// MirrorTries how often it tries to copy a blob or a manifest, with pauses of at most
	// MirrorPause.
	MirrorManifests, MirrorDocuments, MirrorDepth, MirrorBlobs, MirrorTries, MirrorPause = 5000, 64 << 20, 5, 4, 4, time.Minute
	// MirrorContinued is the minimum size of a blob, in bytes, whose upload another worker can
	// continue. UploadAddress is the maximum length of the address of an upload. The state of
	// an upload is stored every UploadSave bytes, with the last UploadSteps states of its hash,
	// which are UploadStep bytes apart.
	// UploadRecord is its maximum size in bytes, UploadRecords that of all states, and
	// UploadAge how long they are stored.
	MirrorContinued, UploadAddress, UploadSave, UploadStep, UploadSteps = 8 << 20, 4 << 10, 4 << 20, 1 << 20, 16
	UploadRecord, UploadRecords, UploadAge                              = 16 << 10, 64 << 20, 24 * time.Hour
	// MirrorBackoff is how long an unavailable mirror is not contacted.
	MirrorBackoff = 30 * time.Second
	// ImageEntries is the maximum number of entries of an image that is converted to a
	// Singularity image, and of its names including parent directories. ImageNameBytes is
	// the maximum total length of the names.
	ImageEntries, ImageNameBytes = 2_000_000, 128 << 20
	// ImageTables is the maximum memory in bytes for names, inodes, link targets,
	// attributes and block lists while the layers of an image are merged into one file
	// system. An ordinary file takes 200 bytes.
	ImageTables = 192 << 20
	// LayerTables is the same for one layer of Conda packages that is compressed for Singularity images
	// while it is made.
	LayerTables = 32 << 20
	// SifBasePacked is the maximum size in bytes of a Singularity image that a build begins
	// from, and SifBaseBytes that of its files. It has at most ImageEntries files, at most
	// SifBaseDepth folders inside each other, and SifDescriptors parts.
	SifBasePacked, SifBaseBytes  = 10 << 30, 40 << 30
	SifBaseDepth, SifDescriptors = 256, 1024
	// ContextPacked and ContextBytes are the maximum packed and unpacked sizes of a build
	// context in bytes. ContextEntries is its maximum number of files and folders, and
	// ContextDepth the maximum depth of folders.
	ContextPacked, ContextBytes  = 4 << 30, 10 << 30
	ContextEntries, ContextDepth = 500_000, 128
	// PlatformAnswer is the maximum size in bytes of a response of another platform, and
	// PlatformValues its maximum number of values. ProviderAnswer is the maximum size of a
	// response of a sign-in provider.
	PlatformAnswer, PlatformValues = 4 << 20, 1 << 16
	ProviderAnswer                 = 1 << 20
)

// fetchRows lists the limits of what is read from registries, layer URLs, platforms and
// token services.
func fetchRows() []Row {
	n := strconv.Itoa
	return []Row{
		{What: "manifest, index or image config", Bound: size(Document), Why: "registries must accept this size according to the distribution specification; all of it is in memory"},
		{What: "values and nesting in such a document", Bound: n(DocumentValues) + " values, " + n(DocumentDepth) + " levels", Why: "two bytes of JSON take a hundred when decoded"},
		{What: "members of a JSON object in such a document that is modified", Bound: n(DocumentMembers), Why: "each is compared with all others, to find duplicates"},
		{What: "entries of an image index", Bound: n(IndexEntries), Why: "the largest in use have about 50, with an attestation for each image"},
		{What: "tags, by login, that are cached for tag_freshness", Bound: n(TagAnswers), Why: "each takes memory; an evicted one is looked up again"},
		{What: "looking up the image of a request at its registry", Bound: SourceLookup.String() + ", the first of two attempts " + SourceTry.String(), Why: "a client that waits longer retries for minutes without showing the reason"},
		{What: "how long a tag lookup is cached", Key: "tag_freshness", Why: "pulls should follow when a tag is moved"},
		{What: "blobs that are cached on disk or in a bucket", Key: "blob_cache_size", Why: "clients that pull determine what is cached"},
		{What: "blob that is cached on disk or in a bucket", Bound: "1/" + n(BlobCacheShare) + " of blob_cache_size", Why: "one blob would evict all others"},
		{What: "document that is cached on disk or in a bucket", Bound: size(Document) + "; each counts " + size(DocumentCharge) + " more", Why: "a file takes a block of the disk"},
		{What: "permissions of logins that upstream_cache remembers", Bound: n(ReadGrants), Why: "each takes memory; for an evicted one the registry is asked again"},
		{What: "waiting for a registry whose answer is known", Bound: StaleAfter.String() + "; then it is not asked for " + OutagePause.String() + " to " + OutagePauseMost.String() + ", as it demands", Why: "a pull should not wait for a registry that is down"},
		{What: "repositories of unavailable registries that are listed", Bound: n(Outages), Why: "users may name any number of them"},
		{What: "documents that wait to be uploaded to a bucket", Bound: n(BucketDocuments) + ", " + size(BucketDocumentBytes), Why: "they are in memory; further ones are not kept"},
		{What: "blob that is cached in a bucket", Bound: size(BucketBlobLeast) + " to " + n(BucketBlobMost/1_000_000_000) + " GB", Why: "smaller ones are faster to proxy; S3 accepts no larger ones in one request"},
		{What: "blobs in a bucket", Bound: n(BucketBlobs), Why: "one replica holds all names in memory while it lists the bucket"},
		{What: "concurrent uploads of one process to a bucket", Bound: n(BucketUploads) + ", for " + BucketUpload.String(), Why: "each has a connection and 1 MiB in memory"},
		{What: "delay of a client by an upload to the bucket", Bound: BucketHold.String() + ", plus one second for each " + size(BucketRate), Why: "pulls must not wait for a cache; a slower bucket does not get the blob"},
		{What: "failing bucket", Bound: "not contacted for " + BucketBackoff.String(), Why: "each pull would wait for it"},
		{What: "layers of an image", Bound: n(ImageLayers), Why: "engines stop at 128; each layer is in memory for the duration of a pull"},
		{What: "layers of an artifact that is not an image", Bound: n(ArtifactLayers), Why: "an environment has one for each package; the size of the manifest is limited, too"},
		{What: "images of an index that are modified", Bound: n(ImagesChanged), Why: "each costs two requests, and memory for two documents"},
		{What: "documents larger than " + size(SmallDocument) + " that one process reads concurrently", Bound: size(DocumentsAtOnce), Why: "decoding costs a small multiple of it; clients get equal shares, " + n(DocumentsWaiting) + " requests wait, and one that waits longer than " + DocumentsWait.String() + " fails with 503"},
		{What: "response of a registry's token service", Bound: size(TokenAnswer), Why: "it holds one token"},
		{What: "header of a response", Bound: size(AnswerHeader), Why: "headers are in memory in full; the usual default of 10 MiB is more than a document"},
		{What: "redirects of one request", Bound: n(Redirects) + ", of " + size(RedirectURL) + " each", Why: "a registry could redirect in a loop"},
		{What: "referrers of a manifest that are listed", Bound: n(Referrers) + ", from " + n(ReferrerPages) + " pages", Why: "a registry can link its pages in a loop"},
		{What: "manifests that are searched for a digest", Bound: n(WalkManifests), Why: "an index can lead to indexes, and these to referrers"},
		{What: "blobs that one image refers to", Bound: n(ImageBlobs), Why: "they are in memory for the duration of a pull"},
		{What: "unavailable mirror of registry_mirrors", Bound: "not contacted for " + MirrorBackoff.String(), Why: "each request would wait for it"},
		{What: "manifests that a mirror copies", Bound: n(MirrorManifests) + ", " + size(MirrorDocuments) + ", " + n(MirrorDepth) + " deep", Why: "the builder holds them in memory while it copies the blobs"},
		{What: "address of an unfinished upload to a registry", Bound: size(UploadAddress), Why: "it is sent with each part; some registries include a signed state"},
		{What: "states of unfinished uploads of mirrors in NATS", Bound: size(UploadRecord) + " for a blob, " + size(UploadRecords) + " in all, for " + UploadAge.String(), Why: "without its state, a blob is sent again as a whole"},
		{What: "blobs that a mirror copies at a time", Bound: n(MirrorBlobs) + ", " + n(MirrorTries) + " tries for each", Why: "one mirror would use all connections of a builder"},
		{What: "interrupted download of a blob", Bound: "resumed for " + BlobResumeWindow.String() + ", " + n(BlobResumptions) + " times", Why: "a client that is disconnected downloads the blob again; otherwise it would wait forever"},
		{What: "ranges of one request for a blob", Bound: n(BlobRanges) + ", fetched in " + n(BlobSpans) + " requests, " + n(BlobSpansAhead) + " at a time", Why: "a request with more gets the whole blob, which is cheaper than thousands of requests to its registry"},
		{What: "names of an image that is converted to a Singularity image", Bound: n(ImageEntries) + ", " + size(ImageNameBytes), Why: "they are in memory, with those of all parent directories, of which one entry can have two thousand"},
		{What: "Singularity image that a build begins from", Bound: size(SifBasePacked) + ", unpacked " + size(SifBaseBytes) + " and build_disk, " + n(ImageEntries) + " files, " + n(SifBaseDepth) + " folders inside each other, " + size(ImageNameBytes) + " for the names of hard links, " + n(SifDescriptors) + " parts", Why: "it is unpacked to a layer on the disk of a worker"},
		{What: "names, inodes, link targets and attributes of a Singularity image", Bound: size(ImageTables), Why: "they are in memory until all files are written; an ordinary file takes 200 bytes, but every link can have a target of 4 KiB, and every file 64 KiB of attributes"},
		{What: "names and attributes of a package that is compressed for Singularity images while its layer is made", Bound: size(LayerTables), Why: "they are in memory; a layer with more is read again when a Singularity image needs it"},
		{What: "build context", Bound: size(ContextPacked) + ", unpacked " + size(ContextBytes), Why: "it is on the builder's disk while the build runs"},
		{What: "files and folders of a build context", Bound: n(ContextEntries) + ", " + n(ContextDepth) + " deep", Why: "each takes an inode; one entry can have two thousand parent folders"},
		{What: "response of another platform", Bound: size(PlatformAnswer) + ", " + n(PlatformValues) + " values", Why: "it lists the credentials of a user"},
		{What: "response of the sign-in provider", Bound: size(ProviderAnswer), Why: "its keys are read during a sign-in"},
		{What: "documents of one image", Bound: size(ImageDocuments), Why: "an index can list many manifests of the largest size"},
	}
}
