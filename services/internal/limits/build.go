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

// BuildInputs is the maximum number of images and layers that are recorded as read by a build.
// BuildInputsStored is their maximum size in bytes, and BuildInputsWait how long registries may take to
// tell which of them can be read without a login.
const (
	BuildInputs       = 500
	BuildInputsStored = 512 << 10
	BuildInputsWait   = 30 * time.Second
)

// MirrorNote is the maximum length in bytes of the stored reason why the provenance of a mirror is not at its target.
const MirrorNote = 1000

// UnsolvedClaims is how many builds a process claims concurrently to solve their Conda
// packages. BuildUnsolved is how long a build may wait for its solution.
const (
	UnsolvedClaims = 8
	BuildUnsolved  = 10 * time.Minute
)

// LimitsWait is how long after its start the build role waits for the limits of organisations,
// workspaces and users before it starts builds without them.
const LimitsWait = 30 * time.Second

// Limits of rebuilds: images that another worker makes again (verify_rebuild).
const (
	// Rebuilds is the maximum number of rebuilds that have not ended, and RebuildsOfOwner that of one
	// client.
	Rebuilds, RebuildsOfOwner = 1000, 100
	// RebuildWait is how long a rebuild waits for another worker, RebuildTries the maximum number of
	// attempts, and RebuildPause the pause after the first failed one.
	RebuildWait  = 24 * time.Hour
	RebuildTries = 3
	RebuildPause = 2 * time.Minute
	// RebuildLease is how long a worker has a rebuild without renewing it every RebuildRenewal.
	RebuildLease, RebuildRenewal = time.Minute, 10 * time.Second
	// RebuildInterval is how often a worker without builds requests a rebuild, and RebuildIntervalOff if
	// verify_rebuild is 0.
	RebuildInterval, RebuildIntervalOff = 10 * time.Second, 5 * time.Minute
	// RebuildConfirmations is how many attempts must find that the inputs are not available. RebuildYield
	// is how long a build must have waited for a worker before rebuilds stop.
	RebuildConfirmations = 2
	RebuildYield         = 10 * time.Second
	// RebuildShare is the divisor of the workers that may have a rebuild at a time.
	RebuildShare = 4
	// RebuildDocument is the maximum size in bytes of the manifest or the configuration that a worker
	// reports, and RebuildMessage that of a message.
	RebuildDocument, RebuildMessage = 1 << 20, 1000
	// RebuildSettings is how many differences of the configuration are stored, each with values of at most
	// RebuildSetting bytes.
	RebuildSettings, RebuildSetting = 20, 4 << 10
	// RebuildAlarms is the maximum number of differences that are stored, each for RebuildAlarmAge.
	RebuildAlarms   = 10_000
	RebuildAlarmAge = 365 * 24 * time.Hour
)

// CountedBuilds is the number of builds of a user up to which each list of them has their exact number. A larger number is
// remembered for BuildTotalAge, for BuildTotals users.
const (
	CountedBuilds = 1000
	BuildTotals   = 10_000
	BuildTotalAge = 10 * time.Second
)

// EnvironmentBuilds is the maximum number of builds among which the environment of a lock is looked up.
const EnvironmentBuilds = 16

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
		{What: "images and layers that the provenance of a build lists as read", Bound: strconv.Itoa(BuildInputs) + ", " + size(BuildInputsStored), Why: "they are stored with the build; of more, the provenance states that some are omitted"},
		{What: "finding out which images of a build can be read without a login", Bound: BuildInputsWait.String(), Why: "the build waits for it; the provenance has no name of the others"},
		{What: "reason why the provenance of a mirror is not at its target", Bound: size(MirrorNote), Why: "it may contain text of a registry"},
		{What: "container requests that wait for the solver at a time", Bound: strconv.Itoa(SolvesAwaited), Why: "further requests are queued at once, and solved before their build; a network of clients without a user leaves a part to others"},
		{What: "queued builds that a process solves at a time", Bound: strconv.Itoa(UnsolvedClaims), Why: "each takes a place of the solver; owners take turns"},
		{What: "wait of a queued build for its Conda packages to be solved", Bound: BuildUnsolved.String(), Why: "a channel may be unreachable for a while; then the build fails with the reason"},
		{What: "images that wait to be built again (verify_rebuild)", Bound: strconv.Itoa(Rebuilds) + ", of one client " + strconv.Itoa(RebuildsOfOwner) + ", each for " + RebuildWait.String() + " and " + strconv.Itoa(RebuildTries) + " attempts", Why: "further images are not built again, which slipway_build_rebuilds_total counts"},
		{What: "images that are built again at a time", Bound: "a quarter of the workers, at least 1; a worker without a report has one for " + RebuildLease.String(), Why: "builds of users come first"},
		{What: "manifest or configuration of an image that was built again", Bound: size(RebuildDocument), Why: "it is in memory as a whole"},
		{What: "differences between two builds of an image", Bound: strconv.Itoa(RebuildAlarms) + ", each for a year", Why: "operators read them with `slipwayd rebuilds`"},
		{What: "builds of a user that each list counts", Bound: strconv.Itoa(CountedBuilds), Why: "counting takes longer than listing; a larger number is remembered for " + BuildTotalAge.String() + ", for " + strconv.Itoa(BuildTotals) + " users"},
		{What: "builds among which the environment of a lock is looked up", Bound: strconv.Itoa(EnvironmentBuilds), Why: "those of the same packages on other base images and platforms are read one by one; the newest are used"},
		{What: "running builds of one user", Key: "build_running_user", Why: "the client with the fewest running builds is next; a limit keeps slots free for later clients"},
		{What: "running builds of one address without a user", Key: "build_running_anonymous", Why: "an idle build holds its slot until it ends; if there are several slots, one is left for other clients"},
	}, stepRows()...)
}
