package limits

import (
	"strconv"
	"time"
)

// Bounds of what is read to list the files of a layer, and of what is kept of it.
const (
	// ListedPacked and ListedBytes are how large a layer may be whose files are listed, in
	// bytes, as stored and unpacked; ListedEntries is how many entries it may have,
	// ListedPath how long a path or a link's target may be in bytes, and ListedTime how long
	// it may take to read.
	ListedPacked, ListedBytes = 2 << 30, 8 << 30
	ListedEntries, ListedPath = 1_000_000, 4096
	ListedTime                = 50 * time.Second
	// ListedAtOnce is how many layers one process reads at a time, ListedAtOnceClient how
	// many for one client; ListedWait is how long one waits for its turn.
	ListedAtOnce, ListedAtOnceClient = 4, 2
	ListedWait                       = 10 * time.Second
	// ListedCharge is for how many bytes of a layer, as stored or unpacked, a listing counts
	// as another pull.
	ListedCharge = 100 << 20
	// ListingUsually and ListingMost are how many files a page of a listing has, and
	// ListingPage how long their names may be together in bytes. ListingFilter is how long a
	// filter may be, and ListingToken what says where a page begins.
	ListingUsually, ListingMost, ListingPage = 1000, 10_000, 4 << 20
	ListingFilter, ListingToken              = 256, 32 << 10
	// ListingKept is how much of one layer's listing is kept in memory, all of it or
	// nothing, and ListingsKept of all layers, in bytes.
	ListingKept, ListingsKept = 16 << 20, 64 << 20
)

// listingRows bound what it costs to look into a layer.
func listingRows() []Row {
	n := strconv.Itoa
	return []Row{
		{What: "layer whose files are listed", Bound: size(ListedPacked) + ", unpacked " + size(ListedBytes) + ", " + n(ListedEntries) + " entries", Why: "all of it is read, while somebody waits for an answer; it is not kept"},
		{What: "time to read a layer whose files are listed", Bound: ListedTime.String(), Why: "a call is answered within a minute"},
		{What: "path or link target in a listing", Bound: size(ListedPath), Why: "no file system has longer ones, and archives can"},
		{What: "layers that one process reads at a time to list their files", Bound: n(ListedAtOnce) + ", " + n(ListedAtOnceClient) + " for one client", Why: "each takes a processor and up to " + size(ListingKept+ListingPage) + "; whoever waits longer than " + ListedWait.String() + " is answered 503"},
		{What: "listing of a layer", Bound: "a pull, and one for each " + size(ListedCharge) + " of the layer, as stored or unpacked", Why: "it costs as much; one that is remembered costs one pull"},
		{What: "files in one answer", Bound: n(ListingMost) + ", with " + size(ListingPage) + " of names", Why: "they are in memory, several times while the answer is written"},
		{What: "listings that are remembered", Bound: size(ListingsKept) + ", each up to " + size(ListingKept), Why: "a larger layer is read again for each page"},
	}
}
