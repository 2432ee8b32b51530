package registry

import (
	"context"
	"errors"
	"maps"
	"testing"

	"google.golang.org/grpc"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
)

// counting is a container service that adds pulls, or fails.
type counting struct {
	containerv1.ContainerServiceClient
	pulls map[string]int64
	err   error
}

func (c *counting) CountCatalogPulls(_ context.Context, req *containerv1.CountCatalogPullsRequest, _ ...grpc.CallOption) (*containerv1.CountCatalogPullsResponse, error) {
	if c.err != nil {
		return nil, c.err
	}
	for id, n := range req.GetPulls() {
		c.pulls[id] += n
	}
	return &containerv1.CountCatalogPullsResponse{}, nil
}

// TestKeptCounter checks that pulls of kept images are counted, also those that could not be stored at first.
func TestKeptCounter(t *testing.T) {
	t.Parallel()
	const id = "0123456789abcdef"
	containers := &counting{pulls: map[string]int64{}, err: errors.New("it is away")}
	c := &keptCounter{containers: containers, pulls: map[string]int64{}}
	c.pull(&resolvedToken{token: "abc"})
	c.pull(&resolvedToken{token: id})
	if err := c.store(t.Context()); err == nil {
		t.Error("a failure was not reported")
	}
	c.pull(&resolvedToken{token: id})
	containers.err = nil
	for range 2 { // the second time there is nothing to store
		if err := c.store(t.Context()); err != nil || !maps.Equal(containers.pulls, map[string]int64{id: 2}) {
			t.Errorf("%v, %v", containers.pulls, err)
		}
	}
}
