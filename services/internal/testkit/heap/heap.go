// Package heap measures the allocations of tests. It is separate from the test kit, so that
// fuzz targets with few dependencies build quickly.
package heap

import (
	"runtime"
	"testing"
)

// Within runs f, which reads in, and fails the test if f allocates more than factor times
// the length of in plus the constant. Concurrent allocations count as well, so tests that
// call it must not run in parallel. With the race detector, which moves more values to the
// heap, twice as much is allowed.
func Within(t testing.TB, factor, constant int, in []byte, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	got, most := after.TotalAlloc-before.TotalAlloc, uint64(factor)*uint64(len(in))+uint64(constant)
	if race {
		most *= 2
	}
	if got > most {
		t.Errorf("%d bytes of input made %d bytes of memory, more than %d", len(in), got, most)
	}
}
