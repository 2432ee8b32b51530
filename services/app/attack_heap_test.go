package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"slipway.dev/gateway"
	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/build"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/config"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/upstream"
)

// TestAttackIdleStreams opens many event streams of a build without output, and checks the
// memory of each against the limits.
func TestAttackIdleStreams(t *testing.T) { //nolint:paralleltest // it measures the process's memory
	const streams = 300
	a := &App{env: &env{log: testkit.Log(t), reg: &collected{Registry: prometheus.NewRegistry()}, cfg: config.Config{StreamsClient: streams, StreamsTotal: 2 * streams}}}
	a.shedder = newShedder(0, 0, a.turns, a.reg)
	id, service := waitingBuild(t)
	h, err := gateway.New(t.Context(), gateway.Conns{Build: service})
	if err != nil {
		t.Fatal(err)
	}
	edge, err := a.edge(a.withStreams(h))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := newHTTPServer(edge, a.log)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	open := func(n int) {
		t.Helper()
		conns := make([]net.Conn, n)
		for i := range conns {
			if conns[i], err = net.Dial("tcp", l.Addr().String()); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conns[i].Close() })
			if _, err := fmt.Fprintf(conns[i], "GET /v1alpha1/builds/%s/events HTTP/1.1\r\nHost: x\r\n\r\n", id); err != nil {
				t.Fatal(err)
			}
		}
		status := make([]byte, len("HTTP/1.1 200"))
		for _, c := range conns {
			if _, err := io.ReadFull(c, status); err != nil || string(status) != "HTTP/1.1 200" {
				t.Fatalf("a stream is answered %q, %v", status, err)
			}
		}
	}
	open(1) // shared memory
	before := inUse()
	open(streams - 1)
	each := (inUse() - before) / (streams - 1)
	t.Logf("a stream takes %d bytes", each)
	if each > limits.IdleStream {
		t.Errorf("a stream that says nothing takes %d bytes, more than %d", each, limits.IdleStream)
	}
}

// inUse returns the size of the heap and the stacks.
func inUse() int64 {
	var m runtime.MemStats
	for range 3 { // finalizers, pools
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// waitingBuild returns a build that never begins, and its build service.
func waitingBuild(t *testing.T) (id string, conn grpc.ClientConnInterface) {
	t.Helper()
	db := testkit.SQLite(t)
	if err := db.Migrate(t.Context(), "build", build.Migrations()); err != nil {
		t.Fatal(err)
	}
	up, reg := testkit.NewRegistry(t, testkit.Open), prometheus.NewRegistry()
	egress, err := upstream.NewEgress([]string{"127.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	to := upstream.Options{Egress: egress, Plain: []string{up.Host}, Metrics: reg}
	s, err := build.New(build.Deps{
		DB: db, Bus: testkit.NATS(t), Log: testkit.Log(t), Now: time.Now, Metrics: reg,
		Upstream: upstream.New(to), Control: upstream.NewControl(upstream.Options{Egress: egress, Plain: to.Plain}),
		Keychain: caller.NewKeychain(nil, nil).WithBuildRepository(caller.BuildRepository{Host: up.Host, Repository: "builds"}),
		Limiter:  ratelimit.New(testkit.Redis(t), reg, testkit.Log(t)),
		Settings: build.Settings{BuildersOnDemand: true, TimeAnonymous: time.Hour, TimeUser: time.Hour},
	})
	if err != nil {
		t.Fatal(err)
	}
	server, memory := rpc.NewServer(rpc.ServerOptions{Log: testkit.Log(t), Metrics: rpc.NewMetrics(prometheus.NewRegistry())}), rpc.NewMemory()
	s.Register(server)
	go func() { _ = server.Serve(memory) }()
	client, err := memory.Dial("container", "gateway")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	t.Cleanup(func() {
		_ = client.Close()
		server.Server.Stop()
		stop()
		<-ran
	})
	sum := sha256.Sum256([]byte("quiet"))
	d := hex.EncodeToString(sum[:])
	req := &buildv1.SubmitBuildRequest{
		ContentId: d[:16], ContentDigest: d,
		Recipe: &buildv1.Recipe{ContainerFile: "FROM scratch", Platform: "linux/amd64", Engine: "buildkit"},
		Target: &buildv1.Target{Registry: up.Host, Repository: "builds", Tag: d[:16]},
	}
	var resp *buildv1.SubmitBuildResponse
	testkit.Until(t, "its streams", func() (err error) {
		resp, err = buildv1.NewBuildServiceClient(client).SubmitBuild(t.Context(), req)
		return err
	})
	return resp.GetBuildId(), client
}
