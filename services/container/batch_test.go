package container_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/container"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/internal/testkit"
)

// batch submits requests in one call, and returns their results in order.
func (r *harness) batch(ctx context.Context, t *testing.T, requests ...*containerv1.ContainerRequest) ([]*containerv1.ContainerResult, error) {
	t.Helper()
	stream, err := r.SubmitContainers(ctx, &containerv1.SubmitContainersRequest{Batch: &containerv1.ContainerRequests{Requests: requests}})
	if err != nil {
		t.Fatal(err)
	}
	out, known := make([]*containerv1.ContainerResult, len(requests)), 0
	for {
		some, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		for _, result := range some.GetResults() {
			if result.Index == nil || out[result.GetIndex()] != nil || (result.GetResponse() == nil) == (result.GetError() == nil) {
				t.Fatalf("got %v", result)
			}
			out[result.GetIndex()] = result
			known++
		}
	}
	if known != len(requests) {
		t.Fatalf("%d of %d results", known, len(requests))
	}
	return out, nil
}

// faultIn returns the error of a result; nil if it has a response.
func faultIn(r *containerv1.ContainerResult) error {
	if r.GetError() == nil {
		return nil
	}
	return fault.FromStatus(status.ErrorProto(r.GetError()))
}

// TestBatchResultsAreThoseOfSingleRequests checks that no request affects the result of another,
// and that equal requests are one, unless they have different credentials.
func TestBatchResultsAreThoseOfSingleRequests(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.SQLite(t))
	image := func() *containerv1.ContainerRequest { return &containerv1.ContainerRequest{ContainerImage: s.image} }
	got, err := s.batch(t.Context(), t,
		image(), &containerv1.ContainerRequest{}, image(), as("ada", image()), as("mallory", image()),
		&containerv1.ContainerRequest{ContainerImage: s.secret}, as("ada", &containerv1.ContainerRequest{ContainerImage: s.secret}),
		&containerv1.ContainerRequest{ContainerImage: s.image, ContainerConfig: &containerv1.ContainerConfig{Env: []string{"A=1"}}},
	)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []error{nil, fault.Invalid, nil, nil, fault.Unauthenticated, fault.Invalid, nil, nil} {
		if err := faultIn(got[i]); want == nil && err != nil || want != nil && !errors.Is(err, want) {
			t.Errorf("result %d is %v", i, got[i])
		}
	}
	if !proto.Equal(got[0].GetResponse(), got[2].GetResponse()) {
		t.Errorf("equal requests got %v and %v", got[0], got[2])
	}
	for _, i := range []int{3, 7} {
		if got[i].GetResponse().GetRequestId() == got[0].GetResponse().GetRequestId() {
			t.Errorf("request %d got the name of another", i)
		}
	}
	plan, err := s.resolve(t, got[6].GetResponse().GetContainerToken(), false)
	if err != nil || plan.GetIdentity().GetUserId() != 1 {
		t.Errorf("Ada's name is %v, %v", plan, err)
	}
}

// TestBatchIsBounded checks the number of requests and identities in one call.
func TestBatchIsBounded(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.SQLite(t))
	many := func(n int, change func(i int, r *containerv1.ContainerRequest)) (out []*containerv1.ContainerRequest) {
		for i := range n {
			out = append(out, &containerv1.ContainerRequest{ContainerImage: s.image})
			change(i, out[i])
		}
		return out
	}
	for name, requests := range map[string][]*containerv1.ContainerRequest{
		"none":                nil,
		"too many":            many(limits.BatchRequests+1, func(int, *containerv1.ContainerRequest) {}),
		"too many identities": many(limits.BatchIdentities+1, func(i int, r *containerv1.ContainerRequest) { r.TowerAccessToken = fmt.Sprint(i) }),
	} {
		if _, err := s.batch(t.Context(), t, requests...); !errors.Is(err, fault.Invalid) || !strings.HasPrefix(err.Error(), "requests has ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.batch(t.Context(), t, many(limits.BatchRequests, func(int, *containerv1.ContainerRequest) {})...); err != nil {
		t.Error(err)
	}
}

// TestBatchIsChargedAsSingleRequests checks that a batch gets no further than single requests
// would, and that equal requests are charged once.
func TestBatchIsChargedAsSingleRequests(t *testing.T) {
	t.Parallel()
	const mine, far = "2001:db8::1", "192.0.2.1"
	r := counted(t, "0", "5/1h")
	var requests []*containerv1.ContainerRequest
	for i := range 40 { // 20 different ones
		requests = append(requests, &containerv1.ContainerRequest{
			ContainerImage: r.image, ContainerConfig: &containerv1.ContainerConfig{WorkingDir: fmt.Sprintf("/%d", i%20)},
		})
	}
	got, err := r.batch(rpc.WithCall(t.Context(), rpc.Call{ClientIP: netip.MustParseAddr(mine)}), t, requests...)
	if err != nil {
		t.Fatal(err)
	}
	done := map[string]bool{}
	for i, result := range got {
		err := faultIn(result)
		if err != nil && !errors.Is(err, fault.Exhausted) {
			t.Errorf("result %d is %v", i, err)
		}
		if err == nil {
			done[result.GetResponse().GetRequestId()] = true
		}
	}
	if len(done) != 5 {
		t.Errorf("%d requests were accepted, and the limit is 5", len(done))
	}
	if err := r.request(t, mine, ""); !errors.Is(err, fault.Exhausted) {
		t.Errorf("a single request is then answered %v", err)
	}
	if err := r.request(t, far, ""); err != nil {
		t.Errorf("a request of another address is answered %v", err)
	}
}

// TestBatchSolvesEachSetOnce checks that requests with the same packages share a solution,
// although they are for different images.
func TestBatchSolvesEachSetOnce(t *testing.T) {
	t.Parallel()
	conda := &solver{answer: solvedTo(), parallel: true}
	s := newSolvedSite(t, conda, time.Minute)
	var requests []*containerv1.ContainerRequest
	for i := range 24 { // 4 sets of packages
		r := s.packages("samtools", fmt.Sprintf("bwa=%d", i%4))
		r.ContainerConfig = &containerv1.ContainerConfig{WorkingDir: fmt.Sprintf("/%d", i)}
		requests = append(requests, r)
	}
	got, err := s.batch(t.Context(), t, requests...)
	if err != nil {
		t.Fatal(err)
	}
	for i, result := range got {
		if err := faultIn(result); err != nil {
			t.Fatalf("result %d is %v", i, err)
		}
	}
	conda.mu.Lock()
	defer conda.mu.Unlock()
	if len(conda.asked) != 4 {
		t.Errorf("the solver was called %d times for 4 sets", len(conda.asked))
	}
}

// verifier counts the tokens that it verifies, and panics for the token "panic".
type verifier struct {
	people
	calls *atomic.Int64
}

func (v verifier) Authorize(ctx context.Context, req *platformv1.AuthorizeRequest, opts ...grpc.CallOption) (*platformv1.AuthorizeResponse, error) {
	v.calls.Add(1)
	if req.GetAccessToken() == "panic" {
		panic("a bug")
	}
	return v.people.Authorize(ctx, req, opts...)
}

// TestBatchVerifiesEachTokenOnce checks that a batch of guesses or of a user's requests calls the
// platform once for each token, and that a panic fails only its own request.
func TestBatchVerifiesEachTokenOnce(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	s := newSiteWith(t, testkit.SQLite(t), func(d *container.Deps) { d.Platform = verifier{calls: &calls} })
	var requests []*containerv1.ContainerRequest
	for i := range 60 {
		who := []string{"ada", "guess", "bob"}[i%3]
		requests = append(requests, as(who, &containerv1.ContainerRequest{ContainerImage: s.image, Fingerprint: fmt.Sprint(i)}))
	}
	requests = append(requests, as("panic", &containerv1.ContainerRequest{ContainerImage: s.image}))
	got, err := s.batch(t.Context(), t, requests...)
	if err != nil {
		t.Fatal(err)
	}
	for i, result := range got[:60] {
		if err := faultIn(result); (err != nil) != (i%3 == 1) || err != nil && !errors.Is(err, fault.Unauthenticated) {
			t.Errorf("result %d is %v", i, err)
		}
	}
	if st := got[60].GetError(); st.GetMessage() != "Internal error" {
		t.Errorf("a request that panics got %v", got[60])
	}
	if n := calls.Load(); n != 4 {
		t.Errorf("the platform was called %d times for 4 tokens", n)
	}
}
