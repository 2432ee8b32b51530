package testkit

import (
	"testing"
	"time"
)

// Until tries until it works, and fails the test with what went wrong when that takes
// minutes. It is for what other programs do and tell nobody of: a broker that drops a
// consumer, a process that ends. Within this process wait for the event itself.
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
