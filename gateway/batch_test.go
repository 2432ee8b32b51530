package gateway_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
)

// sends returns a service that sends one result after another, and then ends with err.
func sends(err error, results ...*containerv1.ContainerResult) grpc.StreamHandler {
	return func(_ any, stream grpc.ServerStream) error {
		if err := stream.RecvMsg(&containerv1.SubmitContainersRequest{}); err != nil {
			return err
		}
		for _, r := range results {
			if err := stream.SendMsg(&containerv1.SubmitContainersResponse{Results: []*containerv1.ContainerResult{r}}); err != nil {
				return err
			}
		}
		return err
	}
}

// shuffled returns two results out of order: a response, and an error with details.
func shuffled(t *testing.T) []*containerv1.ContainerResult {
	t.Helper()
	st, err := status.New(codes.InvalidArgument, "They do not fit").WithDetails(
		&errdetails.ErrorInfo{Domain: "slipway.dev", Metadata: map[string]string{"code": "conda.conflict"}},
		&structpb.Struct{Fields: map[string]*structpb.Value{"conflict": structpb.NewStringValue("why")}},
		&errdetails.RetryInfo{RetryDelay: durationpb.New(1500 * time.Millisecond)},
	)
	if err != nil {
		t.Fatal(err)
	}
	return []*containerv1.ContainerResult{
		{Index: proto.Int32(1), Error: st.Proto()},
		{Index: proto.Int32(0), Response: &containerv1.SubmitContainerResponse{TargetImage: proto.String("a/b:1"), Succeeded: proto.Bool(true)}},
	}
}

const twoRequests = `{"requests": [{"containerImage": "a"}, {"containerImage": "b"}]}`

func compact(t *testing.T, text string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestBatchInOrder(t *testing.T) {
	t.Parallel()
	url := serve(t, sends(nil, shuffled(t)...))
	resp, body := post(t, url+"/v1alpha2/containers", strings.NewReader(twoRequests))
	const want = `{"results":[{"response":{"succeeded":true,"targetImage":"a/b:1"}},{"code":"conda.conflict","details":{"conflict":"why"},"message":"They do not fit","retryAfter":2}]}`
	if resp.StatusCode != http.StatusOK || compact(t, body) != want {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}

func TestBatchAsLines(t *testing.T) {
	t.Parallel()
	url := serve(t, sends(nil, shuffled(t)...))
	resp, body := post(t, url+"/v1alpha2/containers", strings.NewReader(twoRequests), "Accept", "application/json;q=0.1, application/x-ndjson")
	lines := strings.Split(strings.TrimSuffix(body, "\n"), "\n")
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/x-ndjson" || len(lines) != 2 {
		t.Fatalf("%d %v %s", resp.StatusCode, resp.Header, body)
	}
	for i, want := range []string{
		`{"code":"conda.conflict","details":{"conflict":"why"},"index":1,"message":"They do not fit","retryAfter":2}`,
		`{"index":0,"response":{"succeeded":true,"targetImage":"a/b:1"}}`,
	} {
		if got := compact(t, lines[i]); got != want {
			t.Errorf("line %d is %s", i, got)
		}
	}
}

// TestBatchThatBreaksOff checks that a client never mistakes a part of the results for all.
func TestBatchThatBreaksOff(t *testing.T) {
	t.Parallel()
	broken := status.Error(codes.Unavailable, "stopped")
	for name, accept := range map[string]string{"whole": "application/json", "lines": "application/x-ndjson"} {
		url := serve(t, sends(broken, shuffled(t)[0]))
		resp := send(t, http.MethodPost, url+"/v1alpha2/containers", strings.NewReader(twoRequests), "Accept", accept)
		if _, err := io.ReadAll(resp.Body); resp.StatusCode == http.StatusOK && err == nil {
			t.Errorf("%s: the response is complete", name)
		}
		url = serve(t, sends(broken))
		if resp, body := post(t, url+"/v1alpha2/containers", strings.NewReader(twoRequests), "Accept", accept); resp.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%s, before the first result: %d %s", name, resp.StatusCode, body)
		}
	}
}

func TestBatchBodies(t *testing.T) {
	t.Parallel()
	url := serve(t, sends(nil, &containerv1.ContainerResult{Index: proto.Int32(0), Response: &containerv1.SubmitContainerResponse{}}))
	for body, want := range map[string]string{
		`{"requests": [{}` + strings.Repeat(",{}", 1000) + `]}`: "its lists have more than 1000 objects",
		`{"requests": {}}`:  "requests must be a list",
		`{"requests": [3]}`: "requests[0] must be an object",
		`{"requests": [{"a":[` + strings.Repeat("0,", 100_000) + `0]}]}`: "it has more than 100000 values",
		`[]`: "it must be an object",
	} {
		if resp, got := post(t, url+"/v1alpha2/containers", strings.NewReader(body)); resp.StatusCode != http.StatusBadRequest || !strings.Contains(got, want) {
			t.Errorf("%.40s: %d %s", body, resp.StatusCode, got)
		}
	}
	if resp, got := post(t, url+"/v1alpha2/containers", strings.NewReader(`{"requests": [{}`+strings.Repeat(",{}", 999)+`]}`)); resp.StatusCode != http.StatusOK {
		t.Errorf("1000 requests: %d %s", resp.StatusCode, got)
	}
}
