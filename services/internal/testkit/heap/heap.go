// Package heap measures what tests allocate. It stands apart from the test kit, so
// that fuzz targets which need nothing else are built quickly.
package heap

import (
	"runtime"
	"testing"
)

// Within runs f, which reads in, and fails the test when f allocates more than
// factor times the length of in, and the constant. What others allocate meanwhile
// counts as well, so tests that call it do not run in parallel. The race detector makes
// more things escape to the heap: with it, twice as much is allowed.
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
