package limits

import (
	"strconv"
	"time"
)

// What a Conda artifact may hold, and what it may expand to. Anybody can have a
// channel.
const (
	// ArtifactEntries is how many entries its archive may have, and how many files it
	// may list; ArtifactNames how long their names may be together, in bytes.
	ArtifactEntries = 1_000_000
	ArtifactNames   = 128 << 20
	// ArtifactBytes is its length unpacked.
	ArtifactBytes = 40 << 30
	// ArtifactRatio is how many times longer it may be unpacked, once that is more
	// than ArtifactRatioFrom bytes.
	ArtifactRatio     = 200
	ArtifactRatioFrom = 64 << 20
	// ArtifactPath is how long the name of a file, the target of a link, and a prefix
	// placeholder may be, in bytes.
	ArtifactPath = 4096
	// ArtifactInfo is how long a file of its info folder may be that is read as a
	// whole, in bytes.
	ArtifactInfo = 4 << 20
	// ArtifactScript is how long a link or activation script may be, in bytes, and
	// ArtifactScripts how many a package may have.
	ArtifactScript  = 256 << 10
	ArtifactScripts = 64
	// ArtifactDirectory is how long the directory of a .conda may be, in bytes, and
	// ArtifactWindow how far back its compression may reach.
	ArtifactDirectory = 1 << 20
	ArtifactWindow    = 128 << 20
	// ArtifactPacked is how long it may be where the channel does not say its length,
	// in bytes.
	ArtifactPacked = 10 << 30
	// ArtifactsOfHost is how many a worker fetches from one host at a time. ArtifactStall
	// is how long nothing may come of one, and ArtifactRest for how long a host may ask to
	// be left alone and still be waited for.
	ArtifactsOfHost = 6
	ArtifactStall   = time.Minute
	ArtifactRest    = 2 * time.Minute
	// CondaLayers is how many layers the packages of an environment have at most.
	CondaLayers = 100
	// LayerSilence is how long a worker that makes a layer for others may be silent before
	// another makes it, LayerWait how long others wait for it all in all.
	LayerSilence = 15 * time.Second
	LayerWait    = 10 * time.Minute
	// LayerRecord is how long may be what workers tell each other of a layer, in bytes,
	// LayerRecordUnpacked unpacked; LayerRecords what NATS keeps of that together.
	LayerRecord         = 512 << 10
	LayerRecordUnpacked = 16 << 20
	LayerRecords        = 256 << 20
	// LayerKeys is how many layers are looked for in one call, and LayerLookups how many at
	// a time; LayerLookup is how long that may take.
	LayerKeys, LayerLookups = 1000, 16
	LayerLookup             = 5 * time.Second
)

// artifactRows bound a Conda artifact.
func artifactRows() []Row {
	n := strconv.Itoa
	return []Row{
		{What: "Conda artifact: entries", Bound: n(ArtifactEntries) + ", with names of " + size(ArtifactNames), Why: "what is listed is in memory until the package's record is written"},
		{What: "Conda artifact: length unpacked", Bound: size(ArtifactBytes) + ", and " + n(ArtifactRatio) + " times its own beyond " + size(ArtifactRatioFrom), Why: "a kilobyte can stand for any length"},
		{What: "Conda artifact: names, link targets and placeholders", Bound: size(ArtifactPath), Why: "what Linux takes for a path"},
		{What: "Conda artifact: index.json and link.json", Bound: size(ArtifactInfo), Why: "they are in memory as a whole"},
		{What: "Conda artifact: link and activation scripts", Bound: n(ArtifactScripts) + " of " + size(ArtifactScript), Why: "they are kept beside the layer, and read for each image"},
		{What: "Conda artifact: directory of a .conda", Bound: size(ArtifactDirectory), Why: "it has three members; each takes 300 bytes of memory"},
		{What: "Conda artifact: window of its compression", Bound: size(ArtifactWindow), Why: "it is in memory while the package is read; the compressor's own limit without --long"},
		{What: "Conda artifact: length where the channel does not say it", Bound: size(ArtifactPacked), Why: "it lies on the worker's disk while its layer is made"},
		{What: "Conda artifacts that a worker fetches from one host at a time, beside one of each build", Bound: n(ArtifactsOfHost), Why: "channels count requests of an address, over all builds there"},
		{What: "Conda artifact: time in which nothing of it comes", Bound: ArtifactStall.String(), Why: "then the channel is asked again: it would hold a build up until its deadline"},
		{What: "rest of a host of Conda artifacts that says that it has too much to do", Bound: "what it asks for, up to " + ArtifactRest.String(), Why: "a build that would wait longer ends, and says when to try again"},
		{What: "layers of the packages of a Conda environment", Bound: n(CondaLayers), Why: "engines stop at 128; the smallest packages share one"},
		{What: "worker that makes a layer for others: time in which it says nothing", Bound: LayerSilence.String() + ", and " + LayerWait.String() + " in all", Why: "then who waits for it makes the layer"},
		{
			What: "what workers tell each other of a layer", Bound: size(LayerRecord) + ", " + size(LayerRecordUnpacked) + " unpacked; " + size(LayerRecords) + " together, each for conda_layer_memory",
			Why: "it is a message of NATS; a layer of which there is more to say is made by each",
		},
		{What: "layers that are looked for in one call", Bound: n(LayerKeys) + ", " + n(LayerLookups) + " at a time, for " + LayerLookup.String(), Why: "each is a question to NATS"},
	}
}
