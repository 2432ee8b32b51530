package container_test

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/testkit"
)

// TestRegistryOfAnImage checks that problems of an image's registry are errors of the
// request, because clients retry other errors for minutes without showing them, and that an
// unresponsive registry is retried once.
func TestRegistryOfAnImage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		silent int64 // requests without a response
		status int   // of the others; 0 for the registry's own
		want   string
	}{
		"silent once":   {1, 0, ""},
		"silent":        {1000, 0, "did not respond in time"},
		"unavailable":   {0, http.StatusBadGateway, "is unavailable (status 502)"},
		"limited":       {0, http.StatusTooManyRequests, "limits the rate of requests"},
		"no redirect":   {0, http.StatusTeapot, "returned an unexpected response"},
		"in good shape": {0, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newHarness(t, testkit.SQLite(t))
			var asked atomic.Int64
			r.up.Intercept(func(w http.ResponseWriter, req *http.Request) bool {
				switch {
				case asked.Add(1) <= c.silent:
					<-req.Context().Done()
				case c.status != 0:
					w.WriteHeader(c.status)
				default:
					return false
				}
				return true
			})
			start := time.Now()
			_, err := r.SubmitContainer(t.Context(), &containerv1.SubmitContainerRequest{Request: &containerv1.ContainerRequest{ContainerImage: r.image}})
			if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), r.image)) {
				t.Errorf("%v", err)
			}
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
}
