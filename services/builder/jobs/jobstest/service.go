// Package jobstest provides a build service for tests of workers and engines.
package jobstest

import (
	"context"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	"slipway.dev/services/internal/bus/buildbus"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/internal/testkit"
)

// A BuildService is a real server of WorkService with a few jobs.
type BuildService struct {
	buildv1.UnimplementedWorkServiceServer
	Client buildv1.WorkServiceClient

	Mu      sync.Mutex
	jobs    map[string]*buildv1.TakeJobResponse
	Context []byte            // returned for every build
	Logins  map[string]string // passwords of testkit.User by registry
	taken   []*buildv1.TakeJobRequest
	Asked   []*buildv1.GetBuildCredentialsRequest
	Down    int // number of calls of TakeJob that fail
	OnTake  func()
	// keys holds the registered keys by id; revoked holds ids.
	keys    map[string]*buildv1.RegisterWorkerKeyRequest
	revoked map[string]bool
	// Refuse rejects the registration of keys.
	Refuse bool
	// NotBefore is the earliest time of a valid signature; zero means any time.
	NotBefore time.Time
	// Unindexed are the digests of the packages that the index lacks, and Indexed the packages
	// that were reported for it. IndexDown makes reports fail.
	Unindexed []string
	Indexed   []*buildv1.PackageContent
	IndexDown bool
}

// NewBuildService starts a service without jobs.
func NewBuildService(t testing.TB) *BuildService {
	t.Helper()
	r := &BuildService{jobs: map[string]*buildv1.TakeJobResponse{}, Logins: map[string]string{}, keys: map[string]*buildv1.RegisterWorkerKeyRequest{}, revoked: map[string]bool{}}
	conn, _ := testkit.Serve(t, func(s *rpc.Server) {
		buildv1.RegisterWorkServiceServer(s, r)
		testkit.AllowRoles(s, "builder")
	}, "builder")
	r.Client = buildv1.NewWorkServiceClient(conn)
	return r
}

// Add adds a job with a time limit.
func (r *BuildService) Add(id string, limit time.Duration, change ...func(*buildv1.TakeJobResponse)) {
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
func (r *BuildService) TakeJob(_ context.Context, req *buildv1.TakeJobRequest) (*buildv1.TakeJobResponse, error) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	if r.Down > 0 {
		r.Down--
		return nil, fault.Unavailable.Newf("The build service is unavailable")
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
func (r *BuildService) GetContext(_ *buildv1.GetContextRequest, s grpc.ServerStreamingServer[buildv1.GetContextResponse]) error {
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
func (r *BuildService) GetBuildCredentials(_ context.Context, req *buildv1.GetBuildCredentialsRequest) (*buildv1.GetBuildCredentialsResponse, error) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.Asked = append(r.Asked, req)
	password, ok := r.Logins[req.GetRegistry()]
	if !ok {
		return nil, fault.NotFound.Newf("There is no login")
	}
	return &buildv1.GetBuildCredentialsResponse{Username: testkit.User, Password: password}, nil
}

// RegisterWorkerKey implements WorkService.
func (r *BuildService) RegisterWorkerKey(_ context.Context, req *buildv1.RegisterWorkerKeyRequest) (*buildv1.RegisterWorkerKeyResponse, error) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	id := buildbus.KeyID(req.GetPublicKey())
	if !buildbus.HasKey(req.GetPublicKey(), req.GetWorker(), req.GetProof()) {
		return nil, fault.Invalid.Newf("There is no proof")
	}
	if r.revoked[id] || r.Refuse {
		return nil, fault.Denied.Newf("The key has been revoked")
	}
	r.keys[id] = req
	return &buildv1.RegisterWorkerKeyResponse{}, nil
}

// GetWorkerKey implements WorkService.
func (r *BuildService) GetWorkerKey(_ context.Context, req *buildv1.GetWorkerKeyRequest) (*buildv1.GetWorkerKeyResponse, error) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	key := r.keys[req.GetKeyId()]
	if key == nil || r.revoked[req.GetKeyId()] {
		return nil, fault.NotFound.Newf("The key is unknown")
	}
	out := &buildv1.GetWorkerKeyResponse{PublicKey: key.GetPublicKey()}
	if !r.NotBefore.IsZero() {
		out.NotBefore = timestamppb.New(r.NotBefore)
	}
	return out, nil
}

// ListUnindexedPackages implements WorkService.
func (r *BuildService) ListUnindexedPackages(context.Context, *buildv1.ListUnindexedPackagesRequest) (*buildv1.ListUnindexedPackagesResponse, error) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	return &buildv1.ListUnindexedPackagesResponse{Sha256: r.Unindexed}, nil
}

// IndexPackages implements WorkService.
func (r *BuildService) IndexPackages(_ context.Context, req *buildv1.IndexPackagesRequest) (*buildv1.IndexPackagesResponse, error) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	if r.IndexDown {
		return nil, fault.Unavailable.Newf("The index is unavailable")
	}
	r.Indexed = append(r.Indexed, req.GetPackages()...)
	return &buildv1.IndexPackagesResponse{}, nil
}

// Revoke revokes the keys of a worker.
func (r *BuildService) Revoke(worker string) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	for id, key := range r.keys {
		if key.GetWorker() == worker {
			r.revoked[id] = true
		}
	}
}

// Deliveries returns how often a build was taken.
func (r *BuildService) Deliveries(id string) (n int) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	for _, t := range r.taken {
		if t.GetBuildId() == id {
			n++
		}
	}
	return n
}
