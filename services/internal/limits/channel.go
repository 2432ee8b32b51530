package limits

import (
	"strconv"
	"time"
)

// Bounds of what is read from Conda channels.
const (
	// ChannelDownload and ChannelRepodata bound a channel's file in bytes, as it is sent and
	// uncompressed.
	ChannelDownload, ChannelRepodata = 1 << 30, 4 << 30
	// ChannelRecord is the largest value in such a file that is looked at whole, in bytes.
	ChannelRecord = 1 << 20
	// ChannelRecords, ChannelNames, ChannelRecordsOfName and ChannelNameBytes bound what one
	// platform folder of a channel holds: records, names, and records and their bytes
	// of one name.
	ChannelRecords, ChannelNames           = 5_000_000, 500_000
	ChannelRecordsOfName, ChannelNameBytes = 50_000, 64 << 20
	// ChannelDepends is how many dependencies, constraints and features a record may have.
	ChannelDepends = 5000
	// ChannelWord is how long a name, a version, a build or a file name may be.
	ChannelWord = 255
	// ChannelShard and ChannelShardIndex are the largest shard and list of shards in bytes,
	// uncompressed.
	ChannelShard, ChannelShardIndex = 64 << 20, 64 << 20
	// ChannelsAsked is how many channels a request may name.
	ChannelsAsked = 20
	// CondaVirtual is how many virtual packages a request may set, CondaVersions how many
	// versions of a package are described.
	CondaVirtual, CondaVersions = 32, 100
	// ChannelWindow is the memory of a decoder, in bytes.
	ChannelWindow = 128 << 20
	// ChannelShardsAtOnce is how many shards of a channel are fetched at a time, and
	// ChannelShardsFirst how many before the whole list is fetched instead, where
	// somebody waits.
	ChannelShardsAtOnce, ChannelShardsFirst = 32, 500
	// ChannelsAtOnce is how many platform folders are fetched at a time of the channels
	// that everybody uses, and again of all others; of these ChannelsOfClient for one
	// client, for whom ChannelsWaiting may wait. ChannelsKnown is how many are remembered.
	ChannelsAtOnce, ChannelsOfClient = 4, 2
	ChannelsWaiting, ChannelsKnown   = 120, 1000
	// ChannelDirectories is what the directories of all indexes take in memory, and
	// ChannelRuns how many stretches of records of one name an index may have.
	ChannelDirectories, ChannelRuns = 256 << 20, 2_000_000
	// ChannelPace is how many bytes of a file must come in each ChannelStall.
	ChannelPace, ChannelStall = 1 << 20, 30 * time.Second
	// ChannelFetch is how long a fetch may take, ChannelWait how long a request waits for
	// the first, and ChannelRetry how long a channel is left alone after a failure.
	ChannelFetch = 10 * time.Minute
	ChannelWait  = 45 * time.Second
	ChannelRetry = 15 * time.Second
	// ChannelUnused is when an index that nobody asks for is no longer kept fresh.
	ChannelUnused = 24 * time.Hour
)

// channelRows bound what is read from Conda channels.
func channelRows() []Row {
	n := strconv.Itoa
	return []Row{
		{What: "list of packages of a Conda channel (repodata)", Bound: size(ChannelDownload) + ", uncompressed " + size(ChannelRepodata), Why: "the largest have 70 MB and 450 MB; it passes through, and what it says lies on the disk"},
		{What: "one record of a Conda channel", Bound: size(ChannelRecord), Why: "it is in memory in full; most have 500 bytes"},
		{What: "records of a Conda channel for one platform", Bound: n(ChannelRecords) + ", of " + n(ChannelNames) + " names", Why: "the largest has 900,000 of 30,000; each takes some bytes of memory while they are read"},
		{What: "records of one name in a Conda channel", Bound: n(ChannelRecordsOfName) + ", " + size(ChannelNameBytes), Why: "they are in memory together when somebody asks for the name"},
		{What: "dependencies, constraints and features of a record of a Conda channel", Bound: n(ChannelDepends), Why: "each is held against all records of a name; a record with more is left out"},
		{What: "name, version, build and file name in a Conda channel", Bound: n(ChannelWord) + " letters, digits and ._-+!~", Why: "they become parts of URLs, locks and paths"},
		{What: "Conda channels that a request names, and virtual packages that it sets", Bound: n(ChannelsAsked) + ", " + n(CondaVirtual), Why: "each channel is two lists to fetch"},
		{What: "versions of a Conda package that are described", Bound: n(CondaVersions), Why: "an answer is at most 4 MiB"},
		{What: "memory of a decoder for a Conda channel", Bound: size(ChannelWindow), Why: "what compresses lists of packages takes 8 MiB"},
		{What: "shards of a Conda channel that are fetched at a time", Bound: n(ChannelShardsAtOnce), Why: "they are small, and there are thousands; the first time more than " + n(ChannelShardsFirst) + " are missing the whole list is fetched instead"},
		{What: "lists of packages that are fetched at a time", Bound: n(ChannelsAtOnce) + " of channels that everybody uses, and " + n(ChannelsAtOnce) + " of others: " + n(ChannelsOfClient) + " for one client, for whom " + n(ChannelsWaiting) + " may wait", Why: "each takes a processor for a second, and may take " + ChannelFetch.String() + " to come"},
		{What: "pace of a Conda channel", Bound: size(ChannelPace) + " in " + ChannelStall.String(), Why: "one that is slower would not come in time, and others wait for it"},
		{What: "directories of the indexes of Conda channels, in memory", Bound: size(ChannelDirectories) + ", each of " + n(ChannelRuns) + " stretches of records of one name", Why: "conda-forge's for one platform takes 3 MiB; beyond it those that were used longest ago are read from the disk again"},
		{What: "platform folders of Conda channels that are known", Bound: n(ChannelsKnown), Why: "anybody may name any channel"},
		{What: "wait for a Conda channel that is fetched for the first time", Bound: ChannelWait.String(), Why: "then the request is answered 503, and the fetch goes on"},
		{What: "rest of a Conda channel after a failure", Bound: ChannelRetry.String() + ", or what it asks for, up to 1h0m0s", Why: "what it answered is told to all who ask meanwhile"},
		{What: "time for which a Conda channel that nobody asks for is kept fresh", Bound: ChannelUnused.String(), Why: "then the next request gets what there is, and has it brought up to date"},
		{What: "shard of a Conda channel, and list of its shards", Bound: size(ChannelShard) + " each, uncompressed", Why: "both are in memory in full"},
	}
}
