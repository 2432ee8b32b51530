package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
)

// MaxRequests is how many container requests SubmitMany takes.
const MaxRequests = 1000

// manySilence is how long a server may take to the next result of several requests.
const manySilence = 90 * time.Second

// errResults is the cause of a ForeignError if a response does not have one result for each request.
var errResults = errors.New("the response does not have one result for each request")

// SubmitMany makes 1 to MaxRequests container requests in one call, and calls each with every
// result as soon as it is known. A result has the index of its request, and either a response or
// the message and code of an error. The error of each is returned unchanged; after any error, the
// results of the other requests are unknown.
func (c *Client) SubmitMany(ctx context.Context, requests []*containerv1.ContainerRequest, each func(*containerv1.ContainerResult) error) error {
	what := Call{Method: http.MethodPost, Path: "/v1alpha2/containers", Signed: true, Body: &containerv1.ContainerRequests{Requests: requests}}
	body, err := c.Open(ctx, what, http.Header{"Accept": {"application/x-ndjson"}}, manySilence)
	if e, ok := errors.AsType[connectionError](err); ok {
		return e.error
	}
	if err != nil {
		return err
	}
	defer body.Close()
	known := make([]bool, len(requests))
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxEvent)
	n := 0
	for ; lines.Scan(); n++ {
		var r containerv1.ContainerResult
		if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(lines.Bytes(), &r); err != nil {
			return c.Foreign(err)
		}
		i := int(r.GetIndex())
		if r.Index == nil || i < 0 || i >= len(known) || known[i] || (r.GetResponse().GetTargetImage() == "") == (r.GetMessage() == "") {
			return c.Foreign(errResults)
		}
		known[i] = true
		if err := each(&r); err != nil {
			return err
		}
	}
	switch {
	case lines.Err() != nil:
		return c.Unreachable(lines.Err())
	case n < len(requests):
		return c.Foreign(fmt.Errorf("%w: %d of %d", errResults, n, len(requests)))
	}
	return nil
}
