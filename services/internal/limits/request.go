package limits

import (
	"strconv"
	"time"
)

// What a request to the container service may hold, in bytes unless it is a count.
const (
	// RequestBody is a request body.
	RequestBody = 32_000_000
	// RequestValues is how many JSON values a body may hold, each member of each list
	// counted.
	RequestValues = 20_000
	// RequestDepth is how deeply they may be nested.
	RequestDepth = 100
	// ContainerFile and EnvironmentFile are decoded; Encoded is each of them as base64,
	// with room for line breaks.
	ContainerFile   = 1 << 20
	EnvironmentFile = 1 << 20
	Encoded         = 3 << 19
	// EntriesText is how long all specifications of a list are together, OptionText
	// each option of a recipe.
	EntriesText = 50_000
	OptionText  = 10_000
	// LayerLocation is a layer as `data:` and base64.
	LayerLocation = 14_000_000
	// Layers is a count.
	Layers = 100
	// Includes is how many images a request may include, of which IncludesAtOnce are
	// looked up at a time, and IncludedLayers how many layers they may have together for
	// one platform.
	Includes, IncludesAtOnce, IncludedLayers = 10, 4, 128
	// LayersExpanded is what all `data:` layers of a request hold uncompressed.
	LayersExpanded = 1 << 30
	// LayerFetched is the largest layer at an address that is verified, as it is stored;
	// LayerFetchTime is how long that may take for all layers of a request, and
	// LayerFetches how many are read at a time in one process, and LayerFetchesClient
	// how many of them for one client.
	LayerFetched   = 1 << 30
	LayerFetchTime = 20 * time.Second
	LayerFetches   = 16

	LayerFetchesClient = LayerFetches / 4
	// URL is an address.
	URL = 4 << 10
	// Name is the name of an image, of a repository, or of a file.
	Name = 512
	// Word is a value of a small set, a time stamp, or an id.
	Word = 128
	// Fingerprint is what a client says of its own.
	Fingerprint = 1 << 10
	// Secret is a token.
	Secret = 16 << 10
	// Variables is how many environment variables, or arguments, there may be.
	Variables = 1000
	// VariablesText is how long all of them may be together.
	VariablesText = 64 << 10
	// PackageEntries and PackageChannels are counts.
	PackageEntries  = 2000
	PackageChannels = 100
	// LayerFloor and LayerRatio: a layer may hold so many bytes, and so many times its
	// length, uncompressed.
	LayerFloor = 64 << 20
	LayerRatio = 100
	// RequestUnpacked, RequestStored and RequestRecord are how many bytes count as
	// one more request: uncompressed, stored as layers, and kept as a record.
	RequestUnpacked = 16 << 20
	RequestStored   = 256 << 10
	RequestRecord   = 16 << 10
	// Record is what is kept of a request, in Redis as in SQL.
	Record = 704 << 10
)

// What a request to the platform may hold: documents of runs list tasks.
const (
	// RunBody is a request body.
	RunBody = 16_000_000
	// RunValues is how many JSON values a body may hold.
	RunValues = 250_000
)

// requestRows bound what a request may hold.
func requestRows() []Row {
	return []Row{
		{What: "request body", Bound: size(RequestBody), Why: "two layers of the largest size, as base64"},
		{What: "request body: JSON values", Bound: strconv.Itoa(RequestValues), Why: "each takes 100 to 300 bytes when it is read, though two are sent for it"},
		{What: "request body: nesting", Bound: strconv.Itoa(RequestDepth), Why: "readers go down by recursion"},
		{What: "request body of the platform", Bound: size(RunBody), Why: "a run reports its tasks some hundreds at a time"},
		{What: "request body of the platform: JSON values", Bound: strconv.Itoa(RunValues), Why: "some thousand tasks with all their figures"},
		{What: "request bodies that are being answered", Key: "body_memory", Why: "each is copied some times between HTTP and the room that answers; what is too much is answered 503"},
		{What: "containerFile, decoded", Bound: size(ContainerFile), Why: "the contract's"},
		{What: "condaFile, packages.environment, decoded", Bound: size(EnvironmentFile), Why: "the contract's; YAML is read into twenty times its length"},
		{What: "each of these as base64", Bound: size(Encoded), Why: "four thirds of the bytes, and line breaks"},
		{What: "packages.entries in all", Bound: size(EntriesText), Why: "they are kept, and go into names"},
		{What: "packages.channels and condaOpts, each", Bound: size(OptionText), Why: "they go into a generated Dockerfile"},
		{What: "containerConfig.layers", Bound: strconv.Itoa(Layers), Why: "engines take 127 layers in an image"},
		{What: "containerIncludes", Bound: strconv.Itoa(Includes) + " images, " + strconv.Itoa(IncludesAtOnce) + " looked up at a time, " + strconv.Itoa(IncludedLayers) + " layers", Why: "the contract's; engines take 127 layers in an image, and each is kept with the request"},
		{What: "layers[].location with data:", Bound: size(LayerLocation), Why: "the contract's; it is kept in SQL"},
		{What: "data: layers of a request, uncompressed", Bound: size(LayersExpanded), Why: "they are hashed: a second of a processor for some hundred MiB"},
		{What: "layers[].location at an address, verified", Bound: size(LayerFetched), Why: "a larger one is what its request says only when it is pulled"},
		{What: "verifying the layers of a request at addresses", Bound: LayerFetchTime.String(), Why: "clients wait for the response; what is not verified by then is named in the log"},
		{What: "layers at addresses that a process reads at once", Bound: strconv.Itoa(LayerFetches), Why: "a slow server holds up those behind it for the time above at most"},
		{What: "layers at addresses that are read at once for one client", Bound: strconv.Itoa(LayerFetchesClient), Why: "more of its layers are taken as they are described, and others' are still verified"},
		{What: "layers[].location and other addresses", Bound: size(URL), Why: "they are kept, and fetched"},
		{What: "names of images and repositories", Bound: size(Name), Why: "registries take 255 characters"},
		{What: "timestamp, workflowId, and values of small sets", Bound: size(Word), Why: "they are kept"},
		{What: "fingerprint", Bound: size(Fingerprint), Why: "clients send a hash; it is kept for `request_retention`"},
		{What: "tokens", Bound: size(Secret), Why: "JSON web tokens of large groups have some KiB"},
		{What: "env, entrypoint, cmd: number of each", Bound: strconv.Itoa(Variables), Why: "they are kept with the token, and served with each pull"},
		{What: "env, entrypoint, cmd: length of each list", Bound: size(VariablesText), Why: "a kernel gives a program at most some MiB of both; they are kept with the token in Redis"},
		{What: "packages.entries", Bound: strconv.Itoa(PackageEntries), Why: "a solver is given all of them"},
		{What: "packages.channels", Bound: strconv.Itoa(PackageChannels), Why: "each is fetched"},
		{What: "record of a request, in Redis and SQL", Bound: size(Record), Why: "the sum of what may be kept: 100 layer addresses, the layers of included images for two platforms, and the lists above"},
		{What: "requests of a user", Key: "limit_requests_user", Why: "each is kept for `request_retention`; a run asks once for each container, not for each task"},
		{What: "requests of an address without a user", Key: "limit_requests_anonymous", Why: "likewise"},
		{What: "layers and build contexts that are kept", Key: "layer_store", Why: "they are kept in SQL for as long as a name needs them"},
		{What: "live names in the embedded Redis", Key: "token_memory", Why: "the truth is in SQL: the names that were used longest ago are read from there"},
		{What: "memory of the process", Key: "memory_limit", Why: "large requests are answered 503 before the kernel ends the process, and every other client's with it"},
	}
}
