// Package bubble passes time in tests that own theirs (testing/synctest). It stands
// apart from the test kit, so that packages below it can use it.
package bubble

import (
	"testing/synctest"
	"time"
)

// Elapse lets so much of the bubble's time pass, and then waits until nothing in it
// can go on. Outside of a bubble it panics.
func Elapse(d time.Duration) {
	synctest.Wait()
	time.Sleep(d) // takes no time: the clock goes on when all in the bubble wait
	synctest.Wait()
}
