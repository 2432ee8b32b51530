package retry_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"slipway.dev/services/internal/retry"
)

func TestForever(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		begin, round, failed := time.Now(), 0, 0
		retry.Forever(ctx, func(context.Context) error {
			if round++; round == 3 {
				cancel() // errors after this are not reported
			}
			return errors.New("refused")
		}, func(error) { failed++ })
		if round != 3 || failed != 2 || time.Since(begin) != 2*time.Second {
			t.Errorf("%d rounds, %d failures in %s", round, failed, time.Since(begin))
		}
	})
}
