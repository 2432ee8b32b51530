package limits

import (
	"strconv"
	"time"
)

// Limits of what is read from Conda channels.
const (
	// ChannelDownload and ChannelRepodata are the maximum sizes of a channel's file in
	// bytes, compressed and uncompressed.
	ChannelDownload, ChannelRepodata = 1 << 30, 4 << 30
	// ChannelInflated is the uncompressed size in bytes that every list may have. Larger
	// lists are limited to ChannelRatio times their compressed size. ChannelLeast is the
	// maximum size of a list even if conda_index_size is small.
	ChannelInflated, ChannelRatio, ChannelLeast = 16 << 20, 64, 64 << 20
	// ChannelRecord is the largest value in such a file that is read completely, in bytes.
	ChannelRecord = 1 << 20
	// ChannelRecords, ChannelNames and ChannelNamesBytes limit the records, the names and
	// the total length of the names in one platform folder of a channel.
	// ChannelRecordsOfName and ChannelNameBytes limit the records of one name and their
	// size in bytes.
	ChannelRecords, ChannelNames, ChannelNamesBytes = 5_000_000, 250_000, 16 << 20
	ChannelRecordsOfName, ChannelNameBytes          = 50_000, 32 << 20
	// ChannelDepends is the maximum number of dependencies, constraints and features of a
	// record.
	ChannelDepends = 5000
	// ChannelWord is the maximum length of a name, version, build or file name.
	ChannelWord = 255
	// ChannelShard and ChannelShardIndex are the maximum uncompressed sizes of a shard and
	// of the list of shards, in bytes. ChannelShardSent is the maximum compressed size of a
	// shard.
	ChannelShard, ChannelShardIndex, ChannelShardSent = 32 << 20, 16 << 20, 4 << 20
	// ChannelsAsked is the maximum number of channels of a request.
	ChannelsAsked = 20
	// CondaVirtual is the maximum number of virtual packages that a request sets.
	// CondaVersions is the maximum number of versions in the description of a package.
	CondaVirtual, CondaVersions = 32, 100
	// ChannelWindow is the maximum memory of a decoder, in bytes.
	ChannelWindow = 32 << 20
	// ChannelShardsAtOnce is the number of concurrent downloads of shards. On a first fetch
	// with more than ChannelShardsFirst shards, the complete list is fetched instead.
	ChannelShardsAtOnce, ChannelShardsFirst = 32, 500
	// ChannelsAtOnce is the number of platform folders that are fetched concurrently from
	// shared channels, and again from all others. Of these, ChannelsOfClient may be for one
	// client, for whom ChannelsWaiting more may be queued. ChannelsKnown is the maximum
	// number of folders in memory.
	ChannelsAtOnce, ChannelsOfClient = 4, 2
	ChannelsWaiting, ChannelsKnown   = 120, 1000
	// ChannelRuns is the maximum number of runs (consecutive records of one name) in an
	// index.
	ChannelRuns = 1_000_000
	// ChannelPace is the minimum number of bytes of a file that must arrive in each
	// ChannelStall.
	ChannelPace, ChannelStall = 1 << 20, 30 * time.Second
	// ChannelFetch is the timeout of a fetch, ChannelWait is how long a request waits for a
	// first fetch, and ChannelRetry is the minimum time between a failure and the next
	// attempt.
	ChannelFetch = 10 * time.Minute
	ChannelWait  = 45 * time.Second
	ChannelRetry = 15 * time.Second
	// ChannelContended is the timeout of a fetch from a channel that the operator has not
	// configured while another client waits.
	ChannelContended = 30 * time.Second
	// ChannelUnused is how long an index is refreshed after its last use.
	ChannelUnused = 24 * time.Hour
	// ChannelChanges is the maximum number of changes in the history of a list. Their
	// uncompressed length is limited to the size of the index, but at least ChannelInflated.
	ChannelChanges = 1_000_000
	// ChannelPasts is the number of earlier states of lists that remain reconstructed.
	// ChannelPastMemory is the memory for reconstructing them, in bytes: each takes
	// ChannelPastLeast and ChannelPastChange for each change. ChannelPastsWaiting is the
	// maximum number of callers that wait for it.
	ChannelPasts, ChannelPastsWaiting                      = 16, 1000
	ChannelPastMemory, ChannelPastLeast, ChannelPastChange = 256 << 20, 16 << 20, 128
	// ChannelGap is the time without a refresh after which a response states that the list
	// may have changed earlier.
	ChannelGap = 24 * time.Hour
)

// channelRows lists the limits of what is read from Conda channels.
func channelRows() []Row {
	n := strconv.Itoa
	return []Row{
		{What: "list of packages of a Conda channel (repodata)", Bound: size(ChannelDownload) + ", uncompressed " + size(ChannelRepodata) + ", or an eighth of conda_index_size for channels that the operator has not configured", Why: "the largest have 70 MB and 450 MB; it is streamed, and the resulting index is on disk"},
		{What: "compression of a list of packages of a Conda channel", Bound: size(ChannelInflated) + ", then " + n(ChannelRatio) + " times what is sent (zstd, and gzip in registries)", Why: "conda-forge's ratio is 12; each record has a digest, which cannot be compressed"},
		{What: "list or package of a Conda channel in a registry", Bound: "one manifest (" + size(Document) + ") and one layer of the manifest's size; an address of " + size(URL) + "; a list and a package have the bounds of other channels", Why: "a manifest may name many layers, and only one of the right media type is read"},
		{What: "disk space for the lists of Conda channels that the operator has not configured", Bound: "half of conda_index_size, a quarter of that for one client", Why: "the lists of one client must not displace those of others"},
		{What: "one record of a Conda channel", Bound: size(ChannelRecord), Why: "it is in memory in full; most have 500 bytes"},
		{What: "records of a Conda channel for one platform", Bound: n(ChannelRecords) + ", of " + n(ChannelNames) + " names of " + size(ChannelNamesBytes) + " together, in " + n(ChannelRuns) + " runs of one name", Why: "the largest has 900,000 of 30,000 names; each name and run takes some bytes of memory while the list is read, and disk space afterwards"},
		{What: "records of one name in a Conda channel", Bound: n(ChannelRecordsOfName) + ", " + size(ChannelNameBytes), Why: "they are in memory together when the name is requested"},
		{What: "dependencies, constraints and features of a record of a Conda channel", Bound: n(ChannelDepends), Why: "each is matched against all records of a name; a record with more is omitted"},
		{What: "name, version, build and file name in a Conda channel", Bound: n(ChannelWord) + " letters, digits and ._-+!~", Why: "they become parts of URLs, locks and paths"},
		{What: "Conda channels that a request names, and virtual packages that it sets", Bound: n(ChannelsAsked) + ", " + n(CondaVirtual), Why: "each channel is two lists to fetch"},
		{What: "versions of a Conda package that are described", Bound: n(CondaVersions), Why: "a response has at most 4 MiB"},
		{What: "memory of a decoder for a Conda channel", Bound: size(ChannelWindow), Why: "the compressor of package lists uses 8 MiB"},
		{What: "shards of a Conda channel that are fetched at a time", Bound: n(ChannelShardsAtOnce), Why: "they are small, and there are thousands; the first time more than " + n(ChannelShardsFirst) + " are missing the whole list is fetched instead"},
		{What: "lists of packages that are fetched at a time", Bound: n(ChannelsAtOnce) + " of shared channels, and " + n(ChannelsAtOnce) + " of others: " + n(ChannelsOfClient) + " for one client, for whom " + n(ChannelsWaiting) + " may wait; the client with the smallest share is next, and after " + ChannelContended.String() + " a fetch ends in favour of other clients", Why: "each takes a processor for a second, and may run for " + ChannelFetch.String()},
		{What: "pace of a Conda channel", Bound: size(ChannelPace) + " in " + ChannelStall.String(), Why: "a slower download would not end in time, and others wait for it"},
		{What: "platform folders of Conda channels in memory", Bound: n(ChannelsKnown), Why: "any client may name any channel"},
		{What: "wait for a Conda channel that is fetched for the first time", Bound: ChannelWait.String(), Why: "then the request fails with 503, and the fetch continues"},
		{What: "wait before a Conda channel is retried after a failure", Bound: ChannelRetry.String() + ", or its Retry-After, up to 1h0m0s", Why: "requests in the meantime get the same error"},
		{What: "time for which an unused Conda channel is refreshed", Bound: ChannelUnused.String(), Why: "then the next request gets the existing list and starts a refresh"},
		{What: "history of a list of packages of a Conda channel", Bound: n(ChannelChanges) + " changes, uncompressed the size of its index or " + size(ChannelInflated) + ", within conda_history; the oldest are removed first", Why: "a channel may change all of its records at any time; conda-forge changes less than 1% in a day"},
		{What: "earlier lists of packages of Conda channels (asOf)", Bound: n(ChannelPasts) + " remain on disk, each at most as large as its index; " + size(ChannelPastMemory) + " of memory to reconstruct them, " + size(ChannelPastLeast) + " and " + n(ChannelPastChange) + " bytes for each change; " + n(ChannelPastsWaiting) + " callers wait", Why: "any client may name any time; clients get equal shares"},
		{What: "shard of a Conda channel, and list of its shards", Bound: size(ChannelShard) + " (" + size(ChannelShardSent) + " compressed) and " + size(ChannelShardIndex) + ", uncompressed", Why: "both are in memory in full; few shards of conda-forge are larger than 1 MiB"},
	}
}
