package gateway_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"slipway.dev/proto/gen/openapi"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/gateway"
	"slipway.dev/gateway/contracttest"
)

// servePlatform starts the platform's API under a prefix, in front of a gRPC server with
// the handler f. Every request has the id r-1.
func servePlatform(t *testing.T, prefix string, f grpc.StreamHandler) string {
	t.Helper()
	conn := dialPlatform(t, f)
	h, err := gateway.NewPlatform(context.Background(), conn, conn, "")
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", "r-1")
		http.StripPrefix(prefix, h).ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	return web.URL + prefix
}

// dialPlatform connects to a gRPC server with the handler f.
func dialPlatform(t *testing.T, f grpc.StreamHandler) *grpc.ClientConn {
	t.Helper()
	l := bufconn.Listen(1 << 20)
	service := grpc.NewServer(grpc.UnknownServiceHandler(f))
	go func() { _ = service.Serve(l) }()
	t.Cleanup(service.Stop)
	conn, err := grpc.NewClient("passthrough:///platform", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// TestPlatformContract replays the documented examples at both addresses.
func TestPlatformContract(t *testing.T) {
	t.Parallel()
	examples, err := contracttest.Load("testdata/platform", nil)
	if err != nil {
		t.Fatal(err)
	}
	doc := document(t, openapi.Platform)
	published, err := contracttest.ReadPublished()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range examples {
		for _, prefix := range []string{"", "/api"} {
			t.Run(e.Name+prefix, func(t *testing.T) {
				t.Parallel()
				c := &canned{t: t, example: e}
				url := servePlatform(t, prefix, c.answer)
				resp, body := exchange(t, e.Method, url+e.Path, strings.NewReader(e.Body))
				if strconv.Itoa(resp.StatusCode) != e.Status {
					t.Errorf("status %d, want %s: %s", resp.StatusCode, e.Status, body)
				}
				if d := e.Differ(body); d != "" {
					t.Error(d)
				}
				holds(t, doc, e.Method, e.Path, resp, body)
				if err := published.Check(e.Method, e.Path, body); err != nil && resp.StatusCode == http.StatusOK {
					t.Error(err)
				}
				if want := e.RPC != ""; (c.calls > 0) != want {
					t.Errorf("%d calls were made", c.calls)
				}
			})
		}
	}
}

func TestAcceptVersion(t *testing.T) {
	t.Parallel()
	url := servePlatform(t, "", func(any, grpc.ServerStream) error { return status.Error(codes.Unavailable, "") })
	for version, want := range map[string]int{"": 503, "1": 503, "2": 400, "x": 400, "1.0": 400} {
		header := []string{"Accept-Version", version}
		if version == "" {
			header = nil
		}
		resp, body := post(t, url+"/tokens", strings.NewReader("{}"), header...)
		if resp.StatusCode != want || want == 400 && !strings.Contains(body, "served: 1 - error id: r-1") {
			t.Errorf("%q: got %d %s", version, resp.StatusCode, body)
		}
	}
	if resp, body := post(t, url+"/tokens", strings.NewReader("{}"), "Accept-Version", ""); resp.StatusCode != 503 {
		t.Errorf("an empty header, which means the default: got %d %s", resp.StatusCode, body)
	}
}

// TestStaleToken checks that only an access token which can be refreshed is answered with
// 401.
func TestStaleToken(t *testing.T) {
	t.Parallel()
	for refresh, want := range map[string]struct {
		status int
		code   string
	}{"": {403, "auth.denied"}, "true": {401, "auth.invalid"}} {
		st, err := status.New(codes.Unauthenticated, "no").WithDetails(&errdetails.ErrorInfo{Domain: "slipway.dev", Metadata: map[string]string{"refresh": refresh}})
		if err != nil {
			t.Fatal(err)
		}
		url := servePlatform(t, "", func(any, grpc.ServerStream) error { return st.Err() })
		if resp, body := post(t, url+"/tokens", strings.NewReader("{}")); resp.StatusCode != want.status || body != `{"message":"no","code":"`+want.code+`"}` {
			t.Errorf("got %d %s", resp.StatusCode, body)
		}
	}
}

func TestPlatformBodyTooLarge(t *testing.T) {
	t.Parallel()
	url := servePlatform(t, "", func(_ any, s grpc.ServerStream) error {
		if method, _ := grpc.MethodFromServerStream(s); method == platformv1.IdentityService_GetUserInfo_FullMethodName {
			return s.SendMsg(&platformv1.GetUserInfoResponse{})
		}
		return status.Error(codes.Internal, "was called")
	})
	for name, body := range map[string]io.Reader{
		"announced":     strings.NewReader(strings.Repeat(" ", gateway.MaxPlatformBody+1)),
		"not announced": io.LimitReader(endless{}, gateway.MaxPlatformBody+1<<20),
	} {
		if resp, text := post(t, url+"/trace/create", body); resp.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(text, "16,000,000") {
			t.Errorf("%s: got %d %s", name, resp.StatusCode, text)
		}
	}
}
