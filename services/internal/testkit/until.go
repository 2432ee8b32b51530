package testkit

import (
	"testing"
	"time"
)

// Until calls try until it succeeds, and fails the test with the last error after some
// minutes. It is for changes in other programs that cannot be awaited, e.g. a broker that
// drops a consumer or a process that ends. Within this process wait for the event itself.
func Until(t testing.TB, what string, try func() error) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(end) || t.Context().Err() != nil {
			t.Fatalf("waiting for %s: %v", what, err)
		}
	}
}
