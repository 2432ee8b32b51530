package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/grpc/health/grpc_health_v1"

	"slipway.dev/services/internal/config"
	"slipway.dev/services/internal/testkit"
)

// TestJobsEndFirst stops a process while a job runs. The job completes, and the image
// store, the bus, the database and the services are available until then.
func TestJobsEndFirst(t *testing.T) {
	t.Parallel()
	store := "127.0.0.1:" + testkit.FreePort(t)
	settings := map[string]string{
		"SLIPWAY_DATA_DIR": t.TempDir(), "SLIPWAY_HTTP_ADDR": "127.0.0.1:0", "SLIPWAY_PLATFORM_HTTP_ADDR": "", "SLIPWAY_ADMIN_ADDR": "127.0.0.1:0",
		"SLIPWAY_PUBLIC_URL": "http://localhost", "SLIPWAY_STORE_ADDR": store, "SLIPWAY_BUILDKIT_ADDR": "unix:///nowhere",
		"SLIPWAY_DRAIN_DELAY": "0s", "SLIPWAY_DRAIN_TIMEOUT": "20s",
	}
	cfg, err := config.Load(pflag.NewFlagSet("", pflag.ContinueOnError), func(key string) (string, bool) { v, ok := settings[key]; return v, ok })
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(t.Context(), cfg, nil, Build{}, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})))
	if err != nil {
		t.Fatal(err)
	}
	began, finish := make(chan struct{}), make(chan struct{})
	var found error
	a.parts = append(a.parts, parts{jobs: func(ctx context.Context) error {
		close(began)
		<-ctx.Done()
		<-finish
		found = a.inUse(store)
		return nil
	}})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	<-began
	stop()
	// The public ports close immediately, before the job ends.
	for {
		resp, err := http.Get("http://" + a.Addr().String() + "/service-info")
		if err != nil {
			break
		}
		_ = resp.Body.Close()
	}
	close(finish)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if found != nil {
		t.Errorf("while the job ran: %v", found)
	}
}

// inUse returns an error for every store and service that a job can no longer use.
func (a *App) inUse(store string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+store+"/v2/", nil)
	if err != nil {
		return err
	}
	var problems []error
	if resp, err := http.DefaultTransport.RoundTrip(req); err != nil {
		problems = append(problems, fmt.Errorf("the image store: %w", err))
	} else {
		_ = resp.Body.Close()
	}
	if err := a.db.PingContext(ctx); err != nil {
		problems = append(problems, fmt.Errorf("the database: %w", err))
	}
	if err := a.nats.FlushWithContext(ctx); err != nil {
		problems = append(problems, fmt.Errorf("the bus: %w", err))
	}
	for _, service := range []string{"build", "container"} {
		if _, err := grpc_health_v1.NewHealthClient(a.conns[service]).Check(ctx, &grpc_health_v1.HealthCheckRequest{}); err != nil {
			problems = append(problems, fmt.Errorf("the service %s: %w", service, err))
		}
	}
	return errors.Join(problems...)
}
