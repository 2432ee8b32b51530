package testkit

import (
	"context"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"slipway.dev/services/internal/rpc"
)

// Serve serves the services that register registers over memory, and returns a connection
// of a process with the given roles. Both end with the test, or with stop.
func Serve(t testing.TB, register func(*rpc.Server), roles ...string) (conn *grpc.ClientConn, stop func()) {
	t.Helper()
	server := rpc.NewServer(rpc.ServerOptions{Log: Log(t), Metrics: rpc.NewMetrics(prometheus.NewRegistry())})
	register(server)
	memory := rpc.NewMemory()
	conn, err := memory.Dial(roles...)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() { _ = server.Serve(memory); close(served) }()
	stop = sync.OnceFunc(func() {
		_ = conn.Close()
		server.Server.Stop()
		<-served
	})
	t.Cleanup(stop)
	return conn, stop
}

// Run calls run until the test ends or stop is called, which cancels its context and waits
// for it to return. An error fails the test.
func Run(t testing.TB, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ran; err != nil {
			t.Errorf("it ended with %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}
