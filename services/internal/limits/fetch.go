package limits

import (
	"strconv"
	"time"
)

// Bounds of what is read from registries.
const (
	// Document is the largest manifest, index or image config in bytes. It is what
	// the distribution specification tells registries to accept at least.
	Document = 4 << 20
	// DocumentDepth is how deep a document's JSON may be nested, and DocumentValues
	// how many values it may hold.
	DocumentDepth, DocumentValues = 32, 1 << 15
	// DocumentMembers is how many members an object may have that is changed.
	DocumentMembers = 256
	// IndexEntries is how many entries an index may have.
	IndexEntries = 128
	// ImageLayers is how many layers a manifest may list.
	ImageLayers = 512
	// ImagesChanged is how many entries of an index are changed at most.
	ImagesChanged = 32
	// ImageDocuments bounds, in bytes, the documents of one image that is changed or
	// inspected: an index and all manifests and configs that are read behind it.
	ImageDocuments = 16 << 20
	// DocumentsAtOnce bounds, in bytes, the documents larger than SmallDocument that
	// one process reads at a time; DocumentsWait is how long one waits for its turn.
	DocumentsAtOnce = 64 << 20
	SmallDocument   = 64 << 10
	DocumentsWait   = 10 * time.Second
	// TokenAnswer is the largest answer of a token service, and ErrorAnswer what is
	// read of an answer that is an error, in bytes.
	TokenAnswer, ErrorAnswer = 1 << 20, 64 << 10
	// AnswerHeader is the largest header of an answer, in bytes.
	AnswerHeader = 128 << 10
	// Redirects is how many are followed for one request, RedirectURL how long the
	// address of one may be in bytes.
	Redirects, RedirectURL = 5, 8 << 10
	// Referrers is how many of a manifest's referrers are listed, ReferrerPages how
	// many pages of them are read.
	Referrers, ReferrerPages = 1000, 8
	// WalkManifests is how many manifests behind one image are read in search of a
	// digest, and ImageBlobs how many blobs one image may lead to.
	WalkManifests, ImageBlobs = 256, 1 << 15
	// TagAnswers is of how many tags, each as one login sees it, the answer is remembered.
	TagAnswers = 20_000
	// BlobCacheShare is how many blobs fit into blob_cache_size at least.
	BlobCacheShare = 4
	// BucketBlobLeast and BucketBlobMost are how large a blob in a bucket is, in bytes;
	// BucketBlobs how many are remembered while it is looked through.
	BucketBlobLeast, BucketBlobMost, BucketBlobs = 64 << 10, 5_000_000_000, 200_000
	// BucketURL is how long a client may follow the URL of a blob in a bucket, and
	// BucketUse how often it is noted that one is used.
	BucketURL, BucketUse = 5 * time.Minute, time.Hour
	// BucketUploads is how many blobs one process puts into a bucket at a time, BucketUpload
	// how long one may take, and BucketCommit its end. BucketUnseen is the part of
	// blob_cache_size that a process may put there before the bucket is looked through again.
	BucketUploads, BucketUpload, BucketCommit, BucketUnseen = 16, time.Hour, time.Minute, 16
	// BucketHold is how long a bucket may hold up a client, and for a second more for each
	// BucketRate bytes. BucketAway is for how long one that fails is left alone.
	BucketHold, BucketRate, BucketAway = time.Second, 32 << 20, 30 * time.Second
	// BlobAway is how long a registry that breaks off in the middle of a blob is asked
	// for the rest, and BlobResumptions how often for one blob.
	BlobAway, BlobResumptions = 30 * time.Second, 5
	// MirrorAway is for how long a mirror that does not answer is not asked again.
	MirrorAway = 30 * time.Second
	// ImageEntries is how many entries an image may hold that becomes a Singularity
	// image, and how many names, with all directories on the way to them;
	// ImageNameBytes is how long these may be together.
	ImageEntries, ImageNameBytes = 2_000_000, 128 << 20
	// SifTables is how much of names, inodes, link targets, attributes and lists of
	// blocks a Singularity image may have in memory while it is made, in bytes.
	SifTables = 1 << 30
	// ContextPacked and ContextBytes bound a build context in bytes, as it is sent and
	// unpacked; ContextEntries is how many files and folders it may have, and
	// ContextDepth how many folders may be within each other.
	ContextPacked, ContextBytes  = 4 << 30, 10 << 30
	ContextEntries, ContextDepth = 500_000, 128
	// PlatformAnswer is the largest answer of another platform in bytes, and
	// PlatformValues how many values it may hold; ProviderAnswer is the largest of a
	// sign-in provider.
	PlatformAnswer, PlatformValues = 4 << 20, 1 << 16
	ProviderAnswer                 = 1 << 20
)

// fetchRows bound what is read from registries, layer URLs, platforms and token services.
func fetchRows() []Row {
	n := strconv.Itoa
	return []Row{
		{What: "manifest, index or image config", Bound: size(Document), Why: "what the distribution specification has registries accept; all of it is in memory"},
		{What: "values and nesting in such a document", Bound: n(DocumentValues) + " values, " + n(DocumentDepth) + " levels", Why: "two bytes of JSON become a hundred when they are decoded"},
		{What: "members of an object in such a document that is changed", Bound: n(DocumentMembers), Why: "each is compared with all others, to find those that come twice"},
		{What: "entries of an image index", Bound: n(IndexEntries), Why: "the largest in use have about 50, with an attestation for each image"},
		{What: "tags, by login, whose answers are remembered for tag_freshness", Bound: n(TagAnswers), Why: "each takes memory; one that is forgotten is asked for again"},
		{What: "how long an answer about a tag is used again", Key: "tag_freshness", Why: "whoever moves a tag expects pulls to follow"},
		{What: "blobs that are kept on disk or in a bucket", Key: "blob_cache_size", Why: "whoever pulls chooses what is kept"},
		{What: "blob that is kept on disk or in a bucket", Bound: "1/" + n(BlobCacheShare) + " of blob_cache_size", Why: "one would drive out all others"},
		{What: "blob that is kept in a bucket", Bound: size(BucketBlobLeast) + " to " + n(BucketBlobMost/1_000_000_000) + " GB", Why: "a smaller one is sooner passed on than looked for elsewhere; S3 takes no more at once"},
		{What: "blobs in a bucket", Bound: n(BucketBlobs), Why: "one replica remembers all names while it looks through the bucket"},
		{What: "blobs that one process puts into a bucket at a time", Bound: n(BucketUploads) + ", for " + BucketUpload.String(), Why: "each has a connection and 1 MiB in memory"},
		{What: "client that waits for the bucket while a blob is put there", Bound: BucketHold.String() + ", and another for each " + size(BucketRate), Why: "who pulls is not to wait for a cache; one that is slower does not get the blob"},
		{What: "bucket that fails", Bound: "not asked for " + BucketAway.String(), Why: "each pull would wait for it"},
		{What: "layers of an image", Bound: n(ImageLayers), Why: "engines stop at 128; each layer is remembered for the time of a pull"},
		{What: "images of an index that are changed", Bound: n(ImagesChanged), Why: "each costs two requests, and memory for two documents"},
		{What: "documents larger than " + size(SmallDocument) + " that one process reads at a time", Bound: size(DocumentsAtOnce), Why: "decoding costs a small multiple of it; whoever waits longer than " + DocumentsWait.String() + " is answered 503"},
		{What: "answer of a registry's token service", Bound: size(TokenAnswer), Why: "it holds one token"},
		{What: "header of an answer", Bound: size(AnswerHeader), Why: "headers are in memory in full; the usual default of 10 MiB is more than a document"},
		{What: "redirects of one request", Bound: n(Redirects) + ", of " + size(RedirectURL) + " each", Why: "a registry could send the service round in circles"},
		{What: "referrers of a manifest that are listed", Bound: n(Referrers) + ", from " + n(ReferrerPages) + " pages", Why: "a registry can link its pages in a circle"},
		{What: "manifests that are searched for a digest", Bound: n(WalkManifests), Why: "an index can lead to indexes, and these to referrers"},
		{What: "blobs that one image leads to", Bound: n(ImageBlobs), Why: "they are remembered for the time of a pull"},
		{What: "mirror that does not answer, of registry_mirrors", Bound: "not asked for " + MirrorAway.String(), Why: "each request would wait for it"},
		{What: "registry that breaks off in the middle of a blob", Bound: "asked for the rest for " + BlobAway.String() + ", " + n(BlobResumptions) + " times", Why: "a client that is cut off begins the blob anew; one that is never cut off waits for ever"},
		{What: "names of an image that becomes a Singularity image", Bound: n(ImageEntries) + ", " + size(ImageNameBytes), Why: "they are in memory, with those of all directories on the way, of which one entry can name two thousand"},
		{What: "names, inodes, link targets and attributes of a Singularity image", Bound: size(SifTables), Why: "they are in memory until all files are written; every link can have a target of 4 KiB, and every file 64 KiB of attributes"},
		{What: "build context", Bound: size(ContextPacked) + ", unpacked " + size(ContextBytes), Why: "it lies on the builder's disk while the build runs"},
		{What: "files and folders of a build context", Bound: n(ContextEntries) + ", " + n(ContextDepth) + " deep", Why: "each takes an inode; one entry can name two thousand folders"},
		{What: "answer of another platform", Bound: size(PlatformAnswer) + ", " + n(PlatformValues) + " values", Why: "it lists the credentials of a user"},
		{What: "answer of the sign-in provider", Bound: size(ProviderAnswer), Why: "its keys are read while somebody signs in"},
		{What: "documents of one image", Bound: size(ImageDocuments), Why: "an index can list many manifests of the largest size"},
	}
}
