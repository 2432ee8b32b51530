package gateway_test

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
)

// refusing is a connection on which every call fails.
type refusing struct{}

func (refusing) Invoke(context.Context, string, any, any, ...grpc.CallOption) error {
	return status.Error(codes.Internal, "refused")
}

func (refusing) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, status.Error(codes.Internal, "refused")
}

// answer records what a handler writes.
type answer struct {
	header http.Header
	code   int
	body   []byte
}

func (a *answer) Header() http.Header { return a.header }
func (a *answer) WriteHeader(code int) {
	if a.code == 0 {
		a.code = code
	}
}

func (a *answer) Write(p []byte) (int, error) {
	a.body = append(a.body, p...)
	return len(p), nil
}

// buildService is a build service that a test can stop and start again. Each call of
// StreamLogs takes one turn.
type buildService struct {
	buildv1.UnimplementedBuildServiceServer
	turn  func(n int, req *buildv1.StreamLogsRequest, s grpc.ServerStreamingServer[buildv1.StreamLogsResponse]) error
	turns atomic.Int32
	at    atomic.Pointer[bufconn.Listener]
}

func (b *buildService) StreamLogs(req *buildv1.StreamLogsRequest, s grpc.ServerStreamingServer[buildv1.StreamLogsResponse]) error {
	return b.turn(int(b.turns.Add(1)), req, s)
}

// start starts the service. The returned function stops it like kill -9.
func (b *buildService) start() (stop func()) {
	l := bufconn.Listen(1 << 16)
	s := grpc.NewServer()
	buildv1.RegisterBuildServiceServer(s, b)
	b.at.Store(l)
	go func() { _ = s.Serve(l) }()
	return s.Stop
}

// dial connects to the service, wherever it listens.
func (b *buildService) dial(t *testing.T) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///build", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			MinConnectTimeout: 10 * time.Second, Backoff: backoff.Config{BaseDelay: time.Millisecond, MaxDelay: time.Millisecond},
		}),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return b.at.Load().DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// lines returns log entries from one ordinal to another.
func lines(from, to int64) *buildv1.StreamLogsResponse {
	r := &buildv1.StreamLogsResponse{}
	for n := from; n <= to; n++ {
		r.Lines = append(r.Lines, &buildv1.LogLine{Ordinal: n, Text: "line " + strconv.FormatInt(n, 10)})
	}
	return r
}

func succeeded() *buildv1.StreamLogsResponse {
	return &buildv1.StreamLogsResponse{Ended: &buildv1.AwaitBuildResponse{State: buildv1.BuildState_BUILD_STATE_SUCCEEDED}}
}
