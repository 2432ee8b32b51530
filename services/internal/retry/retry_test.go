package retry_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway.dev/services/internal/retry"
)

func TestForever(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var log strings.Builder
		begin, round := time.Now(), 0
		retry.Forever(ctx, &retry.Outage{Log: slog.New(slog.NewTextHandler(&log, nil)), Fails: "down", Works: "up"}, func(context.Context) error {
			if round++; round == 63 {
				cancel() // errors after this are not reported
			}
			return errors.New("refused")
		})
		if lines := strings.Count(log.String(), "down"); round != 63 || lines != 2 || time.Since(begin) != 62*time.Second {
			t.Errorf("%d rounds, %d lines in %s", round, lines, time.Since(begin))
		}
	})
}
