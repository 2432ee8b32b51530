package limits

import (
	"strconv"
	"time"
)

// Uploads is the maximum number of unfinished uploads of a build to the embedded store.
// UploadStall is how long an upload waits for data.
const (
	Uploads     = 100
	UploadStall = 2 * time.Minute
)

// StoredManifest is the maximum size of a manifest or index in the embedded store, in
// bytes.
const StoredManifest = 8 << 20

// BuildLock is the maximum size of the lock that is stored with a build, in bytes before
// compression.
const BuildLock = 8 << 20

// UnsolvedClaims is how many builds a process claims concurrently to solve their Conda
// packages. BuildUnsolved is how long a build may wait for its solution.
const (
	UnsolvedClaims = 8
	BuildUnsolved  = 10 * time.Minute
)

// LimitsWait is how long after its start the build role waits for the limits of organisations,
// workspaces and users before it starts builds without them.
const LimitsWait = 30 * time.Second

// SolvesAwaited is how many container requests of a process wait concurrently for the
// solver. Further requests are queued and solved before their build.
const SolvesAwaited = 32

// buildRows lists the limits of a build and its steps.
func buildRows() []Row {
	return append([]Row{
		{What: "unused images in the embedded store", Key: "store_keep", Why: "every build leaves one, and the disk is finite"},
		{What: "the embedded image store", Key: "store_size", Why: "many builds within store_keep"},
		{What: "manifest in the embedded store", Bound: size(StoredManifest), Why: "anything larger is a layer, and is not parsed for references"},
		{What: "unfinished uploads of a build to the embedded store", Bound: strconv.Itoa(Uploads), Why: "each is a file; an abandoned one is removed like a blob without an image"},
		{What: "upload to the embedded store, without a byte", Bound: UploadStall.String(), Why: "it holds a connection; the whole upload may take longer"},
		{What: "lock that is stored with a build", Bound: size(BuildLock), Why: "several thousand packages; it is stored as long as the build, about a fifth of that"},
		{What: "container requests that wait for the solver at a time", Bound: strconv.Itoa(SolvesAwaited), Why: "further requests are queued at once, and solved before their build; a network of clients without a user leaves a part to others"},
		{What: "queued builds that a process solves at a time", Bound: strconv.Itoa(UnsolvedClaims), Why: "each takes a place of the solver; owners take turns"},
		{What: "wait of a queued build for its Conda packages to be solved", Bound: BuildUnsolved.String(), Why: "a channel may be unreachable for a while; then the build fails with the reason"},
		{What: "running builds of one user", Key: "build_running_user", Why: "the client with the fewest running builds is next; a limit keeps slots free for later clients"},
		{What: "running builds of one address without a user", Key: "build_running_anonymous", Why: "an idle build holds its slot until it ends; if there are several slots, one is left for other clients"},
	}, stepRows()...)
}
