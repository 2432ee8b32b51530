package builder_test

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

// room is a build room with a few jobs: a real server of WorkService.
type room struct {
	buildv1.UnimplementedWorkServiceServer
	client buildv1.WorkServiceClient

	mu      sync.Mutex
	jobs    map[string]*buildv1.TakeJobResponse
	context []byte            // of every build
	logins  map[string]string // password of testkit.User by registry
	taken   []*buildv1.TakeJobRequest
	asked   []*buildv1.GetBuildCredentialsRequest
	down    int // calls of TakeJob that fail
	onTake  func()
}

func newRoom(t testing.TB) *room {
	t.Helper()
	r := &room{jobs: map[string]*buildv1.TakeJobResponse{}, logins: map[string]string{}}
	conn, _ := testkit.Serve(t, func(s *rpc.Server) {
		buildv1.RegisterWorkServiceServer(s, r)
		testkit.LetIn(s, "builder")
	}, "builder")
	r.client = buildv1.NewWorkServiceClient(conn)
	return r
}

// add makes a job that may take a while.
func (r *room) add(id string, limit time.Duration, change ...func(*buildv1.TakeJobResponse)) {
	j := &buildv1.TakeJobResponse{
		Recipe: &buildv1.Recipe{Platform: "linux/amd64", Engine: "fake"}, Target: &buildv1.Target{},
		ContentDigest: "0123", CacheScope: "scope", Ticket: "ticket-" + id,
		Deadline: timestamppb.New(time.Now().Add(limit)),
	}
	for _, f := range change {
		f(j)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.jobs[id] = j
}

func (r *room) TakeJob(_ context.Context, req *buildv1.TakeJobRequest) (*buildv1.TakeJobResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down > 0 {
		r.down--
		return nil, fault.Unavailable.Newf("The build room is not there")
	}
	r.taken = append(r.taken, req)
	if r.onTake != nil {
		r.onTake()
	}
	j := r.jobs[req.GetBuildId()]
	if j == nil {
		return nil, fault.NotFound.Newf("The build has ended")
	}
	return j, nil
}

func (r *room) GetContext(_ *buildv1.GetContextRequest, s grpc.ServerStreamingServer[buildv1.GetContextResponse]) error {
	for rest := r.context; len(rest) > 0; {
		n := min(len(rest), 100)
		if err := s.Send(&buildv1.GetContextResponse{Chunk: rest[:n]}); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

func (r *room) GetBuildCredentials(_ context.Context, req *buildv1.GetBuildCredentialsRequest) (*buildv1.GetBuildCredentialsResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = append(r.asked, req)
	password, ok := r.logins[req.GetRegistry()]
	if !ok {
		return nil, fault.NotFound.Newf("There is no login")
	}
	return &buildv1.GetBuildCredentialsResponse{Username: testkit.User, Password: password}, nil
}

func (r *room) deliveries(id string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.taken {
		if t.GetBuildId() == id {
			n++
		}
	}
	return n
}
