// Package bubble advances the fake clock of tests that run in a synctest bubble. It is
// separate from the test kit, so that packages that the test kit imports can use it.
package bubble

import (
	"testing/synctest"
	"time"
)

// Elapse advances the bubble's clock by d and waits until all goroutines in the bubble are
// blocked. It panics outside of a bubble.
func Elapse(d time.Duration) {
	synctest.Wait()
	time.Sleep(d) // immediate: the clock advances when all goroutines in the bubble are blocked
	synctest.Wait()
}
