package limits

import (
	"strconv"
	"time"
)

// Limits of blobs that the embedded store serves from parts of other blobs.
const (
	// CompositionPieces is the maximum number of pieces of such a blob, and Composition the maximum size
	// of their list in bytes.
	CompositionPieces = 10_000
	Composition       = 2 << 20
	// ComposedLeast and ComposedBlob are the minimum and the maximum size of such a blob in bytes.
	ComposedLeast = 1 << 20
	ComposedBlob  = 1 << 40
	// Compositions is how many such blobs the store verifies at a time, and CompositionQueue how long
	// another one waits before it is rejected.
	Compositions     = 2
	CompositionQueue = 5 * time.Minute
	// CompositionTime is how long the verification of such a blob may take, and CompositionWait how long a
	// request waits for it before the client repeats the request.
	CompositionTime = time.Hour
	CompositionWait = 10 * time.Second
)

// compositionRows lists the limits of composed blobs.
func compositionRows() []Row {
	return []Row{
		{What: "pieces of a blob that is composed of parts; their list", Bound: strconv.Itoa(CompositionPieces) + "; " + size(Composition), Why: "it is read with each request for the blob; an image with more is stored as a file"},
		{What: "blob that is composed of parts", Bound: size(ComposedLeast) + " to " + size(ComposedBlob), Why: "smaller blobs are stored as files; no byte of a part is used twice"},
		{What: "composed blobs that the embedded store verifies at a time", Bound: strconv.Itoa(Compositions) + ", of one build 1; others wait " + CompositionQueue.String(), Why: "all bytes are read and hashed for a list of some KiB; a worker whose image is not accepted in this time pushes it as a file"},
		{What: "verification of a composed blob; wait of one request for it", Bound: CompositionTime.String() + "; " + CompositionWait.String(), Why: "a large blob on a slow disk takes minutes, and clients stop waiting for a response earlier"},
	}
}
