package jobstest

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"slipway.dev/services/internal/bus"
	"slipway.dev/services/internal/bus/buildbus"
)

// WithClaims creates the claims bucket, as the build service does.
func WithClaims(t *testing.T, nc *nats.Conn) *nats.Conn {
	t.Helper()
	js, err := jetstream.New(nc)
	if err == nil {
		err = bus.CreateStreams(t.Context(), js, buildbus.Claims(time.Hour))
	}
	if err != nil {
		t.Fatal(err)
	}
	return nc
}
