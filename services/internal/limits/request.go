package limits

import (
	"fmt"
	"strconv"
	"time"
)

// Limits of a request to the container service, in bytes unless they are counts.
const (
	// RequestBody is the maximum size of a request body.
	RequestBody = 32_000_000
	// BodyCopies is the maximum number of copies of a body in memory while its request is
	// handled: as received, in the messages of the gateway and the service, in the buffers of
	// its decoder, decoded, and as garbage that has not been collected.
	BodyCopies = 9
	// BodyCollected is the size from which the memory of a body is freed immediately after
	// its request.
	BodyCollected = 8 << 20
	// BodiesWaiting is the maximum number of requests that wait for memory for their
	// bodies, BodyWait how long they wait, and SmallBodyWait how long small ones wait.
	BodiesWaiting = 500
	BodyWait      = 30 * time.Second
	SmallBodyWait = 5 * time.Second
	// BodyTimeout is how long a large body may take to arrive while others wait.
	BodyTimeout = 10 * time.Second
	// RequestValues is the maximum number of JSON values of a body, including each list
	// element and member.
	RequestValues = 20_000
	// BatchRequests is the maximum number of container requests in one call, and BatchValues the
	// maximum number of JSON values of its body.
	BatchRequests = 1000
	BatchValues   = 100_000
	// BatchIdentities is the maximum number of different identities in one call.
	BatchIdentities = 10
	// BatchConcurrency is how many requests of one call are handled concurrently,
	// BatchesConcurrency of all calls of a process, and BatchesConcurrencyClient of the calls of
	// one client. BatchesWaiting and BatchesWaitingClient are how many calls wait, and BatchWait
	// how long.
	BatchConcurrency                             = 32
	BatchesConcurrency, BatchesConcurrencyClient = 128, 32
	BatchesWaiting, BatchesWaitingClient         = 100, 4
	BatchWait                                    = 20 * time.Second
	// BatchTime is how long the requests of one call may take: less than the timeout of the
	// gateway after BatchWait.
	BatchTime = 35 * time.Second
	// BatchRest is the part of the gateway's timeout that is left for the response.
	BatchRest = 5 * time.Second
	// BatchAllDetails is the maximum size of the details of all errors in one response, in bytes.
	BatchAllDetails = 2 << 20
	// BatchMessage and BatchDetails are the maximum sizes of the message and the details of the
	// error of one request in one call.
	BatchMessage = 4 << 10
	BatchDetails = 16 << 10
	// RequestDepth is the maximum nesting of JSON values.
	RequestDepth = 100
	// ContainerFile and EnvironmentFile are the maximum decoded sizes. Encoded is the
	// maximum size of each as base64, with line breaks.
	ContainerFile   = 1 << 20
	EnvironmentFile = 1 << 20
	Encoded         = 3 << 19
	// EntriesText is the maximum total length of the specifications in a list, and
	// OptionText that of each option of a recipe.
	EntriesText = 50_000
	OptionText  = 10_000
	// LayerLocation is the maximum length of a layer as a base64 `data:` URL.
	LayerLocation = 14_000_000
	// Layers is the maximum number of layers.
	Layers = 100
	// Includes is the maximum number of images that a request includes, IncludesAtOnce the
	// number of concurrent lookups, and IncludedLayers the maximum number of their layers
	// for one platform.
	Includes, IncludesAtOnce, IncludedLayers = 10, 4, 128
	// LayersExpanded is the maximum uncompressed size of all `data:` layers of a request.
	LayersExpanded = 1 << 30
	// LayerFetched is the maximum compressed size of a layer at a URL that is verified.
	// LayerFetchTime is the time limit for all layers of a request. LayerFetches is the
	// number of concurrent downloads of one process, LayerFetchesClient that for one
	// client, and LayersWaiting the maximum number of waiting downloads.
	LayerFetched   = 1 << 30
	LayerFetchTime = 20 * time.Second
	LayerFetches   = 16

	LayerFetchesClient, LayersWaiting = LayerFetches / 4, 1000
	// TurnsWaiting is the maximum number of requests that wait for a turn of a processor, and
	// TurnWait how long they wait.
	TurnsWaiting = 1000
	TurnWait     = 30 * time.Second
	// URL is the maximum length of a URL.
	URL = 4 << 10
	// Name is the maximum length of the name of an image, a repository, or a file.
	Name = 512
	// Word is the maximum length of an enumerated value, a timestamp, or an ID.
	Word = 128
	// Fingerprint is the maximum length of a client's fingerprint.
	Fingerprint = 1 << 10
	// Secret is the maximum length of a token.
	Secret = 16 << 10
	// Variables is the maximum number of environment variables, or of arguments.
	Variables = 1000
	// VariablesText is their maximum total length.
	VariablesText = 64 << 10
	// SociPrefetch is the maximum number of files that are prefetched, SociPrefetchPath the maximum
	// length of the path of each, and SociPrefetchText their total length.
	SociPrefetch, SociPrefetchPath, SociPrefetchText = 2000, 1 << 10, 128 << 10
	// PackageEntries and PackageChannels are the maximum numbers of packages and channels.
	PackageEntries  = 2000
	PackageChannels = 100
	// LayerFloor is the uncompressed size that every layer may have; beyond it, a layer may have
	// LayerRatio times its compressed size.
	LayerFloor = 64 << 20
	LayerRatio = 100
	// RequestUnpacked, RequestStored and RequestRecord are the numbers of bytes that count
	// as one more request: uncompressed, stored as layers, and stored in the record.
	RequestUnpacked = 16 << 20
	RequestStored   = 256 << 10
	RequestRecord   = 16 << 10
	// Record is the maximum size of the record of a request in Redis and SQL.
	Record = 832 << 10
)

// Limits of a request to the platform, where documents of runs list tasks.
const (
	// RunBody is the maximum size of a request body.
	RunBody = 16_000_000
	// RunValues is the maximum number of JSON values of a body.
	RunValues = 250_000
)

// requestRows lists the limits of a request.
func requestRows() []Row {
	return []Row{
		{What: "request body", Bound: size(RequestBody), Why: "two layers of the largest size, as base64"},
		{What: "request body: JSON values", Bound: strconv.Itoa(RequestValues), Why: "each takes 100 to 300 bytes when parsed, although it may be sent as two"},
		{What: "container requests in one call", Bound: fmt.Sprintf("%d, with %d different identities", BatchRequests, BatchIdentities), Why: "each is authorized and charged as if it came alone; an access token may have to be verified by another platform"},
		{What: "container requests in one call: JSON values", Bound: strconv.Itoa(BatchValues), Why: "a hundred for each request"},
		{What: "requests of calls with several container requests, handled concurrently", Bound: fmt.Sprintf("%d of a process, %d of a client, %d of a call; %d calls wait, %d of a client, for up to %s", BatchesConcurrency, BatchesConcurrencyClient, BatchConcurrency, BatchesWaiting, BatchesWaitingClient, BatchWait), Why: "calls with one request never wait for them; clients get equal shares"},
		{What: "time for all container requests in one call", Bound: BatchTime.String(), Why: "the gateway's timeout is a minute; requests that are not done by then fail with 504, and the others are unaffected"},
		{What: "error of one of several container requests", Bound: fmt.Sprintf("message %s, details %s, details of all %s", size(BatchMessage), size(BatchDetails), size(BatchAllDetails)), Why: "a response has up to a thousand; larger details are left out"},
		{What: "request body: nesting", Bound: strconv.Itoa(RequestDepth), Why: "parsers are recursive"},
		{What: "request body of the platform", Bound: size(RunBody), Why: "a run reports some hundred tasks in one request"},
		{What: "request body of the platform: JSON values", Bound: strconv.Itoa(RunValues), Why: "some thousand tasks with all their metrics"},
		{What: "memory for request bodies larger than 1 MiB", Key: "body_memory", Why: "each counts " + strconv.Itoa(BodyCopies) + " times its length, but at most three quarters of this memory: it is copied between HTTP and the service that handles it, and garbage is not collected immediately; other requests wait in a fair order"},
		{What: "memory for smaller request bodies", Bound: "a quarter of body_memory", Why: "they never wait behind large ones"},
		{What: "requests that wait for memory for their bodies", Bound: strconv.Itoa(BodiesWaiting) + ", for " + BodyWait.String() + " (small ones " + SmallBodyWait.String() + ")", Why: "a waiting request holds a connection but no body; then it fails with 503"},
		{What: "time for a body larger than 1 MiB to arrive while others wait for its memory", Bound: BodyTimeout.String(), Why: "a slow client must not hold the memory of many"},
		{What: "form of the sign-in", Bound: "64 KiB", Why: "it holds a few tokens"},
		{What: "containerFile, decoded", Bound: size(ContainerFile), Why: "the contract's"},
		{What: "condaFile, packages.environment, decoded", Bound: size(EnvironmentFile), Why: "the contract's; parsed YAML takes twenty times its size"},
		{What: "each of these as base64", Bound: size(Encoded), Why: "four thirds of the bytes, and line breaks"},
		{What: "packages.entries in all", Bound: size(EntriesText), Why: "they are stored, and are part of names"},
		{What: "packages.channels and condaOpts, each", Bound: size(OptionText), Why: "they go into a generated Dockerfile"},
		{What: "containerConfig.layers", Bound: strconv.Itoa(Layers), Why: "engines accept 127 layers in an image"},
		{What: "containerIncludes", Bound: strconv.Itoa(Includes) + " images, " + strconv.Itoa(IncludesAtOnce) + " looked up concurrently, " + strconv.Itoa(IncludedLayers) + " layers", Why: "the contract's; engines accept 127 layers in an image, and each is stored with the request"},
		{What: "layers[].location with data:", Bound: size(LayerLocation), Why: "the contract's; it is stored in SQL"},
		{What: "data: layers of a request, uncompressed", Bound: size(LayersExpanded), Why: "they are hashed in turns of a processor: a second for some hundred MiB"},
		{What: "requests that a process uncompresses or parses concurrently", Bound: "one for each processor but one; " + strconv.Itoa(TurnsWaiting) + " wait, for " + TurnWait.String(), Why: "short requests never wait for a processor; clients get equal shares, and texts of at most 4 KiB need no turn"},
		{What: "layers[].location at an address, verified", Bound: size(LayerFetched), Why: "a larger layer is only verified when it is pulled"},
		{What: "verifying the layers of a request at addresses", Bound: LayerFetchTime.String(), Why: "clients wait for the response; layers that are not verified by then are named in the log"},
		{What: "layers at addresses that a process reads concurrently", Bound: strconv.Itoa(LayerFetches) + ", and " + strconv.Itoa(LayersWaiting) + " wait", Why: "a slow server delays queued layers for the time above at most; clients get equal shares"},
		{What: "layers at addresses that are read concurrently for one client", Bound: strconv.Itoa(LayerFetchesClient), Why: "its other layers wait, for the time above at most, and are then used without verification; those of other clients are still verified"},
		{What: "layers[].location and other addresses", Bound: size(URL), Why: "they are stored, and fetched"},
		{What: "names of images and repositories", Bound: size(Name), Why: "registries accept 255 characters"},
		{What: "timestamp, workflowId, and values of small sets", Bound: size(Word), Why: "they are stored"},
		{What: "fingerprint", Bound: size(Fingerprint), Why: "clients send a hash; it is stored for `request_retention`"},
		{What: "tokens", Bound: size(Secret), Why: "JSON web tokens of large groups have some KiB"},
		{What: "env, entrypoint, cmd: number of each", Bound: strconv.Itoa(Variables), Why: "they are stored with the token, and served with each pull"},
		{What: "env, entrypoint, cmd: length of each list", Bound: size(VariablesText), Why: "a kernel passes at most some MiB of both to a program; they are stored with the token in Redis"},
		{What: "sociPrefetch", Bound: strconv.Itoa(SociPrefetch) + " paths of " + size(SociPrefetchPath) + ", " + size(SociPrefetchText) + " together", Why: "they are stored with the request and its build"},
		{What: "packages.entries", Bound: strconv.Itoa(PackageEntries), Why: "all of them are passed to a solver"},
		{What: "packages.channels", Bound: strconv.Itoa(PackageChannels), Why: "each is fetched"},
		{What: "record of a request, in Redis and SQL", Bound: size(Record), Why: "the sum of all parts: 100 layer addresses, the layers of included images for two platforms, and the lists above"},
		{What: "requests of a user", Key: "limit_requests_user", Why: "each is stored for `request_retention`; a run sends one request for each container, not for each task"},
		{What: "requests of an address without a user", Key: "limit_requests_anonymous", Why: "likewise"},
		{What: "stored layers and build contexts", Key: "layer_store", Why: "they are stored in SQL for as long as a name needs them"},
		{What: "unexpired names in the embedded Redis", Key: "token_memory", Why: "all names are in SQL: the least recently used ones are read from there"},
		{What: "memory of the process", Key: "memory_limit", Why: "large requests fail with 503 before the kernel kills the process and with it the requests of all clients"},
	}
}
