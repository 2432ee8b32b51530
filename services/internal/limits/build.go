package limits

import (
	"strconv"
	"time"
)

// Uploads is how many uploads to the embedded store a build has begun and not ended at
// most; UploadStall how long each waits for the next byte.
const (
	Uploads     = 100
	UploadStall = 2 * time.Minute
)

// StoredManifest is how large a manifest or index in the embedded store is at most,
// in bytes.
const StoredManifest = 8 << 20

// BuildLock is how large the lock that is kept with a build may be, in bytes, before
// it is compressed.
const BuildLock = 8 << 20

// buildRows bound what a build and its steps may use.
func buildRows() []Row {
	return append([]Row{
		{What: "images that nobody uses, in the embedded store", Key: "store_keep", Why: "every build leaves one, and the disk is finite"},
		{What: "the embedded image store", Key: "store_size", Why: "many builds within store_keep"},
		{What: "manifest in the embedded store", Bound: size(StoredManifest), Why: "what is larger is a layer, and is not read to see what it needs"},
		{What: "uploads to the embedded store that a build has begun and not ended", Bound: strconv.Itoa(Uploads), Why: "each is a file; what nobody goes on with is removed like a blob without an image"},
		{What: "upload to the embedded store, without a byte", Bound: UploadStall.String(), Why: "it holds a connection; as a whole it may take longer"},
		{What: "lock that is kept with a build", Bound: size(BuildLock), Why: "several thousand packages; it is stored as long as the build, about a fifth of that"},
		{What: "running builds of one user", Key: "build_running_user", Why: "whoever has fewest running goes next; a limit keeps slots free for who comes later"},
		{What: "running builds of one address without a user", Key: "build_running_anonymous", Why: "a build that sleeps holds its slot for its whole time: one slot stays for others where there are several"},
	}, stepRows()...)
}
