package limits

import "strconv"

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
	// ChannelWord is how long a name, a version, a build or a file name may be.
	ChannelWord = 255
	// ChannelShard and ChannelShardIndex are the largest shard and list of shards in bytes,
	// uncompressed.
	ChannelShard, ChannelShardIndex = 64 << 20, 64 << 20
)

// channelRows bound what is read from Conda channels.
func channelRows() []Row {
	n := strconv.Itoa
	return []Row{
		{What: "list of packages of a Conda channel (repodata)", Bound: size(ChannelDownload) + ", uncompressed " + size(ChannelRepodata), Why: "the largest have 70 MB and 450 MB; it passes through, and what it says lies on the disk"},
		{What: "one record of a Conda channel", Bound: size(ChannelRecord), Why: "it is in memory in full; most have 500 bytes"},
		{What: "records of a Conda channel for one platform", Bound: n(ChannelRecords) + ", of " + n(ChannelNames) + " names", Why: "the largest has 900,000 of 30,000; each takes some bytes of memory while they are read"},
		{What: "records of one name in a Conda channel", Bound: n(ChannelRecordsOfName) + ", " + size(ChannelNameBytes), Why: "they are in memory together when somebody asks for the name"},
		{What: "name, version, build and file name in a Conda channel", Bound: n(ChannelWord) + " letters, digits and ._-+!~", Why: "they become parts of URLs, locks and paths"},
		{What: "shard of a Conda channel, and list of its shards", Bound: size(ChannelShard) + " each, uncompressed", Why: "both are in memory in full"},
	}
}
