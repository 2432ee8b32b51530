// Package limits defines the limits of what clients may send, store, or make the server
// fetch. Each limit is defined here with its reason, and the code that enforces it refers
// to it. Rates and sizes that operators may change are settings (internal/config), whose
// rows name the key. The reference page deploy/config.md contains the table.
package limits

import (
	"fmt"
	"slices"
	"strconv"
)

// A Row is one limit in the table.
type Row struct {
	// What is limited, e.g. "Dockerfile (containerFile), decoded".
	What string
	// Bound is the limit as text, e.g. "1 MiB". It is empty for a setting, whose default is
	// shown.
	Bound string
	// Key is the setting that changes the limit; "" if it is fixed.
	Key string
	// Why explains the value, and what would happen without the limit.
	Why string
}

// Rows returns the whole table: limits of requests, of fetched data, of builds, and of
// connections.
func Rows() []Row {
	return slices.Concat(requestRows(), bundleRows(), compositionRows(), mountRows(), attestationRows(), policyRows(), patchRows(), catalogRows(), scanRows(), imageScanRows(), dockerfileRows(), definitionRows(), condaRows(), fetchRows(), listingRows(), channelRows(), artifactRows(), buildRows(), clientRows(), loginRows(), accountRows(), eventRows(), usageRows())
}

// size formats a number of bytes with the largest unit that divides it.
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
