package container

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/rpc"
)

// A batch is several container requests in one call. Each is validated, authorized, charged and
// stored like a single one, by the same code and with the same result. Only three things differ:
// equal requests are one, each identity is verified once, and requests with the same recipe
// follow one another, so that the first one's solution serves the others. Requests that are
// handled concurrently are stored in one transaction (sqldb.GroupWriter), and the queue publishes
// as many of their builds as the workers can take.

// SubmitContainers submits several container requests, and sends each result when it is known.
func (s *Service) SubmitContainers(req *containerv1.SubmitContainersRequest, stream grpc.ServerStreamingServer[containerv1.SubmitContainersResponse]) error {
	ctx, list := stream.Context(), req.GetBatch().GetRequests()
	if len(list) == 0 || len(list) > limits.BatchRequests {
		return fault.Invalid.Newf("requests has 1 to %d container requests, not %d", limits.BatchRequests, len(list))
	}
	if err := checkIdentities(list); err != nil {
		return err
	}
	groups, err := groupsOf(list)
	if err != nil {
		return err
	}
	one := s.withIdentities()
	workers := min(len(groups), limits.BatchConcurrency)
	lease, err := s.batches.Acquire(ctx, fairshare.Request{Client: one.leader(ctx, list[0]), Amount: int64(workers), Class: fairshare.Long})
	if err != nil {
		return err
	}
	defer lease.Release()
	ends := time.Now().Add(limits.BatchTime)
	if deadline, ok := ctx.Deadline(); ok && deadline.Add(-limits.BatchRest).Before(ends) {
		ends = deadline.Add(-limits.BatchRest) // results that were charged must reach the client
	}
	within, cancel := context.WithDeadline(ctx, ends)
	defer cancel()
	var broken error
	details := limits.BatchAllDetails
	for results := range one.submitAll(within, list, groups, workers) {
		if broken != nil {
			continue
		}
		details = trim(results, details)
		if broken = stream.Send(&containerv1.SubmitContainersResponse{Results: results}); broken != nil {
			cancel() // the client has disconnected
		}
	}
	return broken
}

// trim removes details of errors that would exceed a number of bytes, and those of equal requests
// after the first. It returns the remaining number. Codes and the time of another try stay.
func trim(results []*containerv1.ContainerResult, left int) int {
	for n, r := range results {
		st := r.GetError()
		if st == nil {
			continue
		}
		r.Error = &statuspb.Status{Code: st.GetCode(), Message: st.GetMessage()} // equal requests share st
		for _, d := range st.GetDetails() {
			if !d.MessageIs(&errdetails.ErrorInfo{}) && !d.MessageIs(&errdetails.RetryInfo{}) {
				size := proto.Size(d)
				if n > 0 || size > left {
					continue
				}
				left -= size
			}
			r.Error.Details = append(r.Error.Details, d)
		}
	}
	return left
}

// checkIdentities returns an error if requests have too many different identities: each may have
// to be verified by another platform, before anything is charged.
func checkIdentities(list []*containerv1.ContainerRequest) error {
	claims := map[caller.Claim]bool{}
	for _, r := range list {
		if claim, err := caller.ReadClaim(r); err == nil { // otherwise the request fails
			claims[claim] = true
		}
	}
	if len(claims) > limits.BatchIdentities {
		return fault.Invalid.Newf("requests has %d different access tokens, platforms and workspaces, and may have %d; make several calls", len(claims), limits.BatchIdentities)
	}
	return nil
}

// leader returns the client that a batch counts for while it waits: that of its first request.
func (s *Service) leader(ctx context.Context, first *containerv1.ContainerRequest) fairshare.Client {
	claim, err := caller.ReadClaim(first)
	if err != nil {
		return rpc.CallFrom(ctx).Address()
	}
	who, err := caller.Gate{Platform: s.deps.Platform, Anonymous: true}.Identify(ctx, claim)
	if err != nil {
		return rpc.CallFrom(ctx).Address()
	}
	return caller.Of(who).Client(ctx)
}

// A recipeGroup is the indexes of requests with the same recipe: equal requests together, in the order
// of their first.
type recipeGroup [][]int

// groupsOf groups requests by their recipes.
func groupsOf(list []*containerv1.ContainerRequest) ([]recipeGroup, error) {
	type place struct{ group, request int }
	groups, recipes, requests := []recipeGroup(nil), map[[sha256.Size]byte]int{}, map[[sha256.Size]byte]place{}
	for i, r := range list {
		whole, err := digestOf(r)
		if err != nil {
			return nil, err
		}
		if at, ok := requests[whole]; ok {
			groups[at.group][at.request] = append(groups[at.group][at.request], i)
			continue
		}
		recipe, err := digestOf(recipeOf(r))
		if err != nil {
			return nil, err
		}
		n, ok := recipes[recipe]
		if !ok {
			n = len(groups)
			recipes[recipe], groups = n, append(groups, nil)
		}
		requests[whole] = place{n, len(groups[n])}
		groups[n] = append(groups[n], []int{i})
	}
	return groups, nil
}

// recipeOf returns the parts of a request that its packages are solved from. A request without
// packages has no other with the same recipe.
func recipeOf(r *containerv1.ContainerRequest) *containerv1.ContainerRequest {
	if r.GetPackages() == nil && r.GetCondaFile() == "" {
		return r
	}
	return &containerv1.ContainerRequest{
		Packages: r.GetPackages(), CondaFile: r.GetCondaFile(), ContainerPlatform: r.GetContainerPlatform(),
		AsOf: r.GetAsOf(), MinAge: r.GetMinAge(), MinAgeExcept: r.GetMinAgeExcept(),
	}
}

// digestOf identifies a message within a process.
func digestOf(r *containerv1.ContainerRequest) ([sha256.Size]byte, error) {
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(r)
	if err != nil {
		return [sha256.Size]byte{}, fmt.Errorf("encoding a request: %w", err)
	}
	return sha256.Sum256(raw), nil
}

// submitAll submits groups of requests concurrently, each in order. It returns the results of
// equal requests together. The channel never blocks, and is closed when all results are known.
func (s *Service) submitAll(ctx context.Context, list []*containerv1.ContainerRequest, groups []recipeGroup, workers int) <-chan []*containerv1.ContainerResult {
	todo, out := make(chan recipeGroup, len(groups)), make(chan []*containerv1.ContainerResult, len(list))
	for _, g := range groups {
		todo <- g
	}
	close(todo)
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for g := range todo {
				for _, equal := range g {
					out <- results(equal, s.result(ctx, list[equal[0]]))
				}
			}
		})
	}
	go func() { running.Wait(); close(out) }()
	return out
}

// results returns a result for each index.
func results(indexes []int, result *containerv1.ContainerResult) []*containerv1.ContainerResult {
	out := make([]*containerv1.ContainerResult, 0, len(indexes))
	for _, i := range indexes {
		out = append(out, &containerv1.ContainerResult{Index: proto.Int32(int32(i)), Response: result.GetResponse(), Error: result.GetError()})
	}
	return out
}

// result submits one request of a batch.
func (s *Service) result(ctx context.Context, r *containerv1.ContainerRequest) *containerv1.ContainerResult {
	resp, err := s.submitSafely(ctx, r)
	if err == nil {
		s.results.WithLabelValues(codes.OK.String()).Inc()
		return &containerv1.ContainerResult{Response: resp}
	}
	st := rpc.Public(ctx, err)
	s.results.WithLabelValues(st.Code().String()).Inc()
	return &containerv1.ContainerResult{Error: bounded(st.Proto())}
}

// bounded limits the size of an error, since a response may have many.
func bounded(st *statuspb.Status) *statuspb.Status {
	st.Message = fault.Clip(st.GetMessage(), limits.BatchMessage)
	st.Details = slices.DeleteFunc(st.GetDetails(), func(d *anypb.Any) bool { return proto.Size(d) > limits.BatchDetails })
	return st
}

// errBatchTime is returned for requests that were not done within limits.BatchTime.
var errBatchTime = fault.Timeout.Newf("The requests of the call took longer than %s; make those that failed again", limits.BatchTime)

// submitSafely is submitOne, and returns a panic as an error: it must not affect other requests.
func (s *Service) submitSafely(ctx context.Context, r *containerv1.ContainerRequest) (resp *containerv1.SubmitContainerResponse, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	if err = ctx.Err(); err == nil {
		resp, err = s.submitOne(ctx, r)
	}
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = errBatchTime
	}
	return resp, err
}
