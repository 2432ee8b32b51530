package jobstest

import (
	"errors"
	"testing"

	"slipway.dev/services/internal/testkit"
)

// Eventually waits until the function is returns true.
func Eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	testkit.Until(t, what, func() error {
		if !is() {
			return errors.New("not yet")
		}
		return nil
	})
}
