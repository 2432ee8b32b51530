// Package jobstest is a build room for tests of workers and engines.
package jobstest

import (
	"context"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/internal/testkit"
)

// Room is a build room with a few jobs: a real server of WorkService.
type Room struct {
	buildv1.UnimplementedWorkServiceServer
	Client buildv1.WorkServiceClient

	Mu      sync.Mutex
	jobs    map[string]*buildv1.TakeJobResponse
	Context []byte            // of every build
	Logins  map[string]string // password of testkit.User by registry
	taken   []*buildv1.TakeJobRequest
	Asked   []*buildv1.GetBuildCredentialsRequest
	Down    int // calls of TakeJob that fail
	OnTake  func()
}

// NewRoom serves one that has no job yet.
func NewRoom(t testing.TB) *Room {
	t.Helper()
	r := &Room{jobs: map[string]*buildv1.TakeJobResponse{}, Logins: map[string]string{}}
	conn, _ := testkit.Serve(t, func(s *rpc.Server) {
		buildv1.RegisterWorkServiceServer(s, r)
		testkit.LetIn(s, "builder")
	}, "builder")
	r.Client = buildv1.NewWorkServiceClient(conn)
	return r
}

// Add makes a job that may take a while.
func (r *Room) Add(id string, limit time.Duration, change ...func(*buildv1.TakeJobResponse)) {
	j := &buildv1.TakeJobResponse{
		Recipe: &buildv1.Recipe{Platform: "linux/amd64", Engine: "fake"}, Target: &buildv1.Target{},
		ContentDigest: "0123", CacheScope: "scope", Ticket: "ticket-" + id,
		Deadline: timestamppb.New(time.Now().Add(limit)),
	}
	for _, f := range change {
		f(j)
	}
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.jobs[id] = j
}

// TakeJob implements WorkService.
func (r *Room) TakeJob(_ context.Context, req *buildv1.TakeJobRequest) (*buildv1.TakeJobResponse, error) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	if r.Down > 0 {
		r.Down--
		return nil, fault.Unavailable.Newf("The build room is not there")
	}
	r.taken = append(r.taken, req)
	if r.OnTake != nil {
		r.OnTake()
	}
	j := r.jobs[req.GetBuildId()]
	if j == nil {
		return nil, fault.NotFound.Newf("The build has ended")
	}
	return j, nil
}

// GetContext implements WorkService.
func (r *Room) GetContext(_ *buildv1.GetContextRequest, s grpc.ServerStreamingServer[buildv1.GetContextResponse]) error {
	for rest := r.Context; len(rest) > 0; {
		n := min(len(rest), 100)
		if err := s.Send(&buildv1.GetContextResponse{Chunk: rest[:n]}); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

// GetBuildCredentials implements WorkService.
func (r *Room) GetBuildCredentials(_ context.Context, req *buildv1.GetBuildCredentialsRequest) (*buildv1.GetBuildCredentialsResponse, error) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.Asked = append(r.Asked, req)
	password, ok := r.Logins[req.GetRegistry()]
	if !ok {
		return nil, fault.NotFound.Newf("There is no login")
	}
	return &buildv1.GetBuildCredentialsResponse{Username: testkit.User, Password: password}, nil
}

// Deliveries is how often a build was taken.
func (r *Room) Deliveries(id string) (n int) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	for _, t := range r.taken {
		if t.GetBuildId() == id {
			n++
		}
	}
	return n
}
