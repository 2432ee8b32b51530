package testkit

import (
	"runtime"
	"testing"
)

// Memory runs f, which reads in, and fails the test when f allocates more than
// factor times the length of in, and the constant. What others allocate meanwhile
// counts as well, so tests that call it do not run in parallel.
func Memory(t testing.TB, factor, constant int, in []byte, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	got, most := after.TotalAlloc-before.TotalAlloc, uint64(factor)*uint64(len(in))+uint64(constant)
	if got > most {
		t.Errorf("%d bytes of input made %d bytes of memory, more than %d", len(in), got, most)
	}
}
