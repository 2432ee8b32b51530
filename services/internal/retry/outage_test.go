package retry_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway.dev/services/internal/retry"
)

// TestOutage checks that an outage is logged when it begins, once a minute, and when it is over.
func TestOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		handler := slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}})
		o := &retry.Outage{Log: slog.New(handler), Fails: "down", Works: "up"}
		logged := func(want string) {
			t.Helper()
			if got := log.String(); got != want {
				t.Errorf("the log has\n%swant\n%s", got, want)
			}
			log.Reset()
		}
		refused := errors.New("refused")
		o.Succeeded(t.Context())
		logged("")
		for range 100 { // seconds
			o.Failed(t.Context(), refused, "queue", 7)
			retry.Sleep(t.Context(), time.Second)
		}
		o.Succeeded(t.Context())
		o.Succeeded(t.Context())
		logged("level=WARN msg=down err=refused failures=1 queue=7\nlevel=WARN msg=down err=refused failures=61 queue=7\nlevel=INFO msg=up failures=100\n")
		for range 10 { // what fails now and then does not fill the log either
			o.Failed(t.Context(), refused)
			o.Succeeded(t.Context())
		}
		logged("")
		retry.Sleep(t.Context(), time.Minute)
		o.Failed(t.Context(), refused)
		logged("level=WARN msg=down err=refused failures=1\n")
	})
}
