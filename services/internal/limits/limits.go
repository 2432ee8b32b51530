// Package limits is the table of what a stranger may send, store, or make this
// service fetch. Each bound stands here once, beside its reason, and whoever
// enforces it reads it from here. Rates and sizes that an operator may want to
// change are settings (internal/config); their rows name the key. The reference
// page deploy/config.md shows the table.
package limits

import (
	"fmt"
	"slices"
	"strconv"
)

// Row is one bound.
type Row struct {
	// What is bounded, e.g. "Dockerfile (containerFile), decoded".
	What string
	// Bound in words, e.g. "1 MiB"; for a setting its default is shown and this is
	// empty.
	Bound string
	// Key is the setting that changes it; "" where it is fixed.
	Key string
	// Why it is as large as it is, and what goes wrong without it.
	Why string
}

// Rows is the whole table: what requests may hold, what is fetched from others,
// what builds may use, and what a client may hold open.
func Rows() []Row {
	return slices.Concat(requestRows(), dockerfileRows(), condaRows(), fetchRows(), listingRows(), channelRows(), artifactRows(), buildRows(), clientRows(), loginRows(), accountRows())
}

// size writes a number of bytes in the largest unit that divides it.
func size(bytes int64) string {
	for _, u := range []struct {
		name string
		size int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if bytes >= u.size && bytes%u.size == 0 {
			return fmt.Sprintf("%d %s", bytes/u.size, u.name)
		}
	}
	return strconv.FormatInt(bytes, 10) + " B"
}
