package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
)

const batchPath = "/v1alpha2/containers"

// ndjson is the media type of JSON values that are separated by line feeds.
const ndjson = "application/x-ndjson"

// batches serves several container requests in one call: with all results in one response, or with
// each as a line when it is known. The generated code would wrap each message of the stream.
type batches struct {
	mux     *runtime.ServeMux
	service containerv1.ContainerServiceClient
	// marshaler decodes bodies, which have more values than those of other calls.
	marshaler *marshaler
	stall     time.Duration // timeout for the client to accept a line
}

// submit serves POST of batchPath.
func (b *batches) submit(w http.ResponseWriter, r *http.Request, _ map[string]string) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	ctx, err := runtime.AnnotateContext(ctx, b.mux, r, containerv1.ContainerService_SubmitContainers_FullMethodName)
	if err != nil {
		writeError(ctx, b.mux, b.marshaler, w, r, err)
		return
	}
	var req containerv1.ContainerRequests
	if err := b.marshaler.NewDecoder(r.Body).Decode(&req); err != nil && !errors.Is(err, io.EOF) {
		writeError(ctx, b.mux, b.marshaler, w, r, status.Error(codes.InvalidArgument, err.Error()))
		return
	}
	stream, err := b.service.SubmitContainers(ctx, &containerv1.SubmitContainersRequest{Batch: &req})
	if err != nil {
		writeError(ctx, b.mux, b.marshaler, w, r, err)
		return
	}
	if acceptsLines(r) {
		b.lines(ctx, w, r, stream)
		return
	}
	b.whole(ctx, w, r, stream)
}

// acceptsLines reports whether a client accepts lines of JSON.
func acceptsLines(r *http.Request) bool {
	return slices.ContainsFunc(strings.Split(strings.Join(r.Header.Values("Accept"), ","), ","), func(part string) bool {
		kind, _, err := mime.ParseMediaType(part)
		return err == nil && kind == ndjson
	})
}

// results is a stream of the service.
type results interface {
	Recv() (*containerv1.SubmitContainersResponse, error)
}

// whole writes all results in one response, in the order of their requests.
func (b *batches) whole(ctx context.Context, w http.ResponseWriter, r *http.Request, stream results) {
	all := &containerv1.SubmitContainersResponse{}
	for {
		some, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			writeError(ctx, b.mux, b.marshaler, w, r, err)
			return
		}
		all.Results = append(all.Results, some.GetResults()...)
	}
	slices.SortFunc(all.GetResults(), func(x, y *containerv1.ContainerResult) int { return int(x.GetIndex() - y.GetIndex()) })
	for _, result := range all.GetResults() {
		render(ctx, result, w.Header().Get("X-Request-Id"))
		result.Index = nil
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(b.stall)) // not every writer supports deadlines
	runtime.ForwardResponseMessage(ctx, b.mux, b.marshaler, w, r, all)
}

// lines writes each result as a line when it is known. An error before the first line is an
// ordinary error response. A later error aborts the connection, so that no client mistakes a
// part of the results for all.
func (b *batches) lines(ctx context.Context, w http.ResponseWriter, r *http.Request, stream results) {
	some, err := stream.Recv()
	if err != nil {
		writeError(ctx, b.mux, b.marshaler, w, r, err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", ndjson)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // otherwise nginx would buffer lines
	ctl := http.NewResponseController(w)
	for ; err == nil; some, err = stream.Recv() {
		for _, result := range some.GetResults() {
			render(ctx, result, h.Get("X-Request-Id"))
			if err := b.line(w, ctl, result); err != nil {
				panic(http.ErrAbortHandler) // the client has disconnected
			}
		}
	}
	if !errors.Is(err, io.EOF) {
		panic(http.ErrAbortHandler)
	}
}

// line writes a result and flushes it.
func (b *batches) line(w io.Writer, ctl *http.ResponseController, result *containerv1.ContainerResult) error {
	raw, err := b.marshaler.Marshal(result)
	if err != nil {
		return err
	}
	_ = ctl.SetWriteDeadline(time.Now().Add(b.stall)) // not every writer supports deadlines
	if _, err := w.Write(append(raw, '\n')); err != nil {
		return fmt.Errorf("writing a result: %w", err)
	}
	return ctl.Flush()
}

// render replaces the status of a failed request by the members of an error body.
func render(ctx context.Context, result *containerv1.ContainerResult, requestID string) {
	if result.GetError() == nil {
		return
	}
	headers := http.Header{"X-Request-Id": {requestID}} // the others are those of a response of its own
	_, p := read(ctx, status.ErrorProto(result.GetError()), headers)
	result.Error, result.Message, result.Code = nil, proto.String(p.Message), proto.String(p.Code)
	if n, err := strconv.ParseInt(headers.Get("Retry-After"), 10, 32); err == nil {
		result.RetryAfter = proto.Int32(int32(n))
	}
	if p.Details == nil {
		return
	}
	details := &structpb.Struct{}
	if err := protojson.Unmarshal(p.Details, details); err == nil {
		result.Details = details
	}
}
