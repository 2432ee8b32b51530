package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"slipway.dev/proto/gen/openapi"

	"slipway.dev/gateway"
	"slipway.dev/gateway/contracttest"
)

// canned is a gRPC server that expects one call and returns a canned response.
type canned struct {
	t       *testing.T
	example contracttest.Example

	mu    sync.Mutex
	calls int
}

// answer handles any method of any service.
func (c *canned) answer(_ any, stream grpc.ServerStream) error {
	c.mu.Lock()
	c.calls++
	c.mu.Unlock()
	full, _ := grpc.MethodFromServerStream(stream)
	full = strings.TrimPrefix(full, "/")
	if full != c.example.RPC {
		c.t.Errorf("%s was called, want %q", full, c.example.RPC)
	}
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(strings.ReplaceAll(full, "/", ".")))
	if err != nil {
		return err
	}
	method := d.(protoreflect.MethodDescriptor)
	got, want := dynamicpb.NewMessage(method.Input()), dynamicpb.NewMessage(method.Input())
	if err := stream.RecvMsg(got); err != nil {
		return err
	}
	if err := protojson.Unmarshal([]byte(c.example.Asked), want); err != nil {
		return err
	}
	if !proto.Equal(got, want) {
		c.t.Errorf("%s was asked\n%v\nwant\n%v", full, got, want)
	}
	if c.example.Fault != "" {
		return faultOf(c.example.Fault)
	}
	for answers := json.NewDecoder(strings.NewReader(c.example.Answered)); ; {
		var raw json.RawMessage
		if err := answers.Decode(&raw); err != nil {
			return eof(err)
		}
		reply := dynamicpb.NewMessage(method.Output())
		if err := protojson.Unmarshal(packed(c.t, raw, method.Output()), reply); err != nil {
			return err
		}
		if err := stream.SendMsg(reply); err != nil {
			return err
		}
	}
}

// packed encodes the documents in a message as the strings that they are in gRPC.
func packed(t *testing.T, raw json.RawMessage, m protoreflect.MessageDescriptor) json.RawMessage {
	t.Helper()
	var members map[string]json.RawMessage
	if m.FullName() == "slipway.platform.v1.Document" {
		members = map[string]json.RawMessage{"json": encoded(t, []byte(raw))}
		return encoded(t, members)
	}
	if strings.HasPrefix(string(m.FullName()), "google.protobuf.") || json.Unmarshal(raw, &members) != nil || members == nil {
		return raw
	}
	for name, v := range members {
		f := m.Fields().ByJSONName(name)
		if f == nil || f.Message() == nil || f.IsMap() {
			continue
		}
		if !f.IsList() {
			members[name] = packed(t, v, f.Message())
			continue
		}
		var list []json.RawMessage
		if err := json.Unmarshal(v, &list); err != nil {
			t.Error(err)
		}
		for i := range list {
			list[i] = packed(t, list[i], f.Message())
		}
		members[name] = encoded(t, list)
	}
	return encoded(t, members)
}

func encoded(t *testing.T, v any) json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Error(err)
	}
	return raw
}

func eof(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// faultOf returns the gRPC status of a service's fault.
func faultOf(text string) error {
	kind, message, _ := strings.Cut(text, ": ")
	info := &errdetails.ErrorInfo{Domain: "slipway.dev"}
	if of, ours, ok := strings.Cut(strings.TrimSuffix(kind, ")"), " ("); ok {
		kind, info.Metadata = of, map[string]string{"code": ours}
	}
	code := map[string]codes.Code{"invalid": codes.InvalidArgument, "not found": codes.NotFound, "unsupported": codes.Unimplemented, "unauthenticated": codes.Unauthenticated, "conflict": codes.AlreadyExists}[kind]
	st, err := status.New(code, message).WithDetails(info)
	if err != nil {
		return err
	}
	return st.Err()
}

// serve starts the gateway in front of a gRPC server with the handler f.
func serve(t *testing.T, f grpc.StreamHandler) string {
	t.Helper()
	web := httptest.NewServer(handler(t, f))
	t.Cleanup(web.Close)
	return web.URL
}

// handler returns the gateway in front of a gRPC server with the handler f.
func handler(t *testing.T, f grpc.StreamHandler) http.Handler {
	t.Helper()
	l := bufconn.Listen(1 << 20)
	services := grpc.NewServer(grpc.UnknownServiceHandler(f))
	go func() { _ = services.Serve(l) }()
	t.Cleanup(services.Stop)
	conn, err := grpc.NewClient("passthrough:///services", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	h, err := gateway.New(context.Background(), gateway.Conns{Container: conn, Build: conn, Conda: conn, Inspect: conn, Metrics: conn})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestContract(t *testing.T) {
	t.Parallel()
	values := map[string]string{
		"registry": "registry.example.org", "request": strings.Repeat("1d", 32), "token": "abc", "spare": "def", "layer": "sha256:" + strings.Repeat("0f", 32),
		"build": "3f2a00000000beef_1", "pending": "3f2a00000000beef_2", "failed": "3f2a00000000beef_3",
	}
	var examples []contracttest.Example
	for _, folder := range []string{"", "build", "metrics", "operator", "conda", "catalog", "certified"} {
		some, err := contracttest.Load(filepath.Join("testdata/contract", folder), values)
		if err != nil {
			t.Fatal(err)
		}
		examples = append(examples, some...)
	}
	doc := document(t, openapi.Container)
	for _, e := range examples {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			c := &canned{t: t, example: e}
			url := serve(t, c.answer)
			resp, body := exchange(t, e.Method, url+e.Path, strings.NewReader(e.Body))
			if strconv.Itoa(resp.StatusCode) != e.Status {
				t.Errorf("status %d, want %s: %s", resp.StatusCode, e.Status, body)
			}
			for k, v := range e.Header {
				if resp.Header.Get(k) != v {
					t.Errorf("%s: %q, want %q", k, resp.Header.Get(k), v)
				}
			}
			if d := e.Differ(body); d != "" {
				t.Error(d)
			}
			holds(t, doc, e.Method, e.Path, resp, body)
			if want := e.RPC != ""; (c.calls > 0) != want {
				t.Errorf("%d calls were made", c.calls)
			}
		})
	}
}
