package gateway_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/gateway"
)

// client has its own connections: each httptest.Server closes the idle connections of
// http.DefaultClient when it ends.
var client = &http.Client{Transport: &http.Transport{}}

// send makes a request; header alternates names and values.
func send(t *testing.T, method, url string, body io.Reader, header ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// exchange makes a request and reads the whole response.
func exchange(t *testing.T, method, url string, body io.Reader, header ...string) (*http.Response, []byte) {
	t.Helper()
	resp := send(t, method, url, body, header...)
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, raw
}

func post(t *testing.T, url string, body io.Reader, header ...string) (*http.Response, string) {
	t.Helper()
	resp, raw := exchange(t, http.MethodPost, url, body, header...)
	return resp, string(raw)
}

func TestStatusesBecomeResponses(t *testing.T) {
	t.Parallel()
	ours := func(code codes.Code, details ...protoadapt.MessageV1) error {
		st, err := status.New(code, "what went wrong").WithDetails(append(details, &errdetails.ErrorInfo{
			Domain: "slipway.dev", Metadata: map[string]string{"ratelimit-limit": "10", "ratelimit-remaining": "0", "ratelimit-reset": "7"},
		})...)
		if err != nil {
			t.Fatal(err)
		}
		return st.Err()
	}
	full, err := status.New(codes.ResourceExhausted, "what went wrong").WithDetails(
		&errdetails.ErrorInfo{Domain: "slipway.dev", Reason: "full"}, &errdetails.RetryInfo{RetryDelay: durationpb.New(60_000_000_000)})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		err     error
		status  int
		code    string
		message string
		header  map[string]string
	}{
		{"denied", ours(codes.PermissionDenied), 403, "auth.denied", "what went wrong", nil},
		{"conflict", ours(codes.AlreadyExists), 409, "object.conflict", "what went wrong", nil},
		{"exhausted", ours(codes.ResourceExhausted, &errdetails.RetryInfo{RetryDelay: durationpb.New(6_500_000_000)}), 429, "limit.exceeded", "what went wrong",
			map[string]string{"Retry-After": "7", "RateLimit-Limit": "10", "RateLimit-Remaining": "0", "RateLimit-Reset": "7"}},
		{"full", full.Err(), 507, "server.full", "what went wrong", map[string]string{"Retry-After": "60"}},
		{"unavailable", ours(codes.Unavailable), 503, "server.unavailable", "what went wrong", nil},
		{"an unavailable service", status.Error(codes.Unavailable, "dial tcp 10.0.0.7:9095: refused"), 503, "server.unavailable", "A part of the service cannot be reached right now; try again", map[string]string{"Retry-After": "1"}},
		{"too slow", status.Error(codes.DeadlineExceeded, "context deadline exceeded"), 504, "server.timeout", "The service did not respond in time; try again", nil},
		{"too large an answer", status.Error(codes.ResourceExhausted, "grpc: received message larger than max"), 500, "server.internal", "Internal error; it is logged as ", nil},
		{"plain", errors.New("secret internals"), 500, "server.internal", "Internal error; it is logged as ", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			url := serve(t, func(any, grpc.ServerStream) error { return c.err })
			resp, body := post(t, url+"/v1alpha2/container", strings.NewReader("{}"))
			if resp.StatusCode != c.status || body != `{"message":"`+c.message+`","code":"`+c.code+`"}` {
				t.Errorf("got %d %s", resp.StatusCode, body)
			}
			for k, v := range c.header {
				if resp.Header.Get(k) != v {
					t.Errorf("%s: %q, want %q", k, resp.Header.Get(k), v)
				}
			}
		})
	}
}

// TestCodesAndDetails checks that the code and the detail of a fault are returned, but not
// those of a status that the gRPC library created.
func TestCodesAndDetails(t *testing.T) {
	t.Parallel()
	detail := &condav1.LockPackagesResponse{Suggestions: []*condav1.Suggestion{{Packages: []string{"samtools <2"}}}}
	info := func(domain string) *errdetails.ErrorInfo {
		return &errdetails.ErrorInfo{Domain: domain, Metadata: map[string]string{"code": "conda.conflict"}}
	}
	for domain, want := range map[string]string{
		"slipway.dev": `{"message":"no","code":"conda.conflict","details":{"suggestions":[{"packages":["samtools <2"]}]}}`,
		"example.org": `{"message":"no","code":"request.invalid"}`,
	} {
		st, err := status.New(codes.InvalidArgument, "no").WithDetails(info(domain), detail)
		if err != nil {
			t.Fatal(err)
		}
		url := serve(t, func(any, grpc.ServerStream) error { return st.Err() })
		if _, body := post(t, url+"/v1alpha2/container", strings.NewReader("{}")); body != want {
			t.Errorf("%s: got %s, want %s", domain, body, want)
		}
	}
}

// TestMessagesAreNotEscaped checks that messages contain <, > and & unescaped, since clients
// print messages as they are.
func TestMessagesAreNotEscaped(t *testing.T) {
	t.Parallel()
	st, err := status.New(codes.InvalidArgument, "no samtools >=2 & <3").WithDetails(&errdetails.ErrorInfo{Domain: "slipway.dev"})
	if err != nil {
		t.Fatal(err)
	}
	url := serve(t, func(any, grpc.ServerStream) error { return st.Err() })
	if _, body := post(t, url+"/v1alpha2/container", strings.NewReader("{}")); body != `{"message":"no samtools >=2 & <3","code":"request.invalid"}` {
		t.Errorf("got %s", body)
	}
}

// TestWellKnownFiles checks the files that browsers and crawlers request on their own.
func TestWellKnownFiles(t *testing.T) {
	t.Parallel()
	url := serve(t, func(any, grpc.ServerStream) error { return errors.New("was called") })
	for path, kind := range map[string]string{"/favicon.ico": "image/svg+xml", "/robots.txt": "text/plain"} {
		resp, body := exchange(t, http.MethodGet, url+path, nil)
		if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), kind) || len(body) == 0 {
			t.Errorf("%s: got %d %s", path, resp.StatusCode, resp.Header.Get("Content-Type"))
		}
	}
}

// TestCauseOfFailures checks that each response 500 has a cause for the log, unless the
// service has logged it itself.
func TestCauseOfFailures(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 5<<20) // gRPC receives 4 MiB by default
	for name, c := range map[string]struct {
		answer func(s grpc.ServerStream) error
		want   string
	}{
		"a response that gRPC cannot receive": {func(s grpc.ServerStream) error {
			return s.SendMsg(&containerv1.SubmitContainerResponse{TargetImage: &large})
		}, "larger than max"},
		"a status of a library":             {func(grpc.ServerStream) error { return status.Error(codes.DataLoss, "the disk is full") }, "the disk is full"},
		"a failure that the service logged": {func(grpc.ServerStream) error { return status.Error(codes.Internal, "Internal error") }, ""},
		"a refusal":                         {func(grpc.ServerStream) error { return status.Error(codes.Unavailable, "gone") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var cause error
			h := handler(t, func(_ any, s grpc.ServerStream) error { return c.answer(s) })
			rec := httptest.NewRecorder()
			req := httptest.NewRequestWithContext(gateway.WithFailure(t.Context(), &cause), http.MethodPost, "/v1alpha2/container", strings.NewReader("{}"))
			h.ServeHTTP(rec, req)
			if c.want == "" && cause != nil || c.want != "" && (rec.Code != http.StatusInternalServerError || cause == nil || !strings.Contains(cause.Error(), c.want)) {
				t.Errorf("%d, the cause is %v", rec.Code, cause)
			}
		})
	}
}

func TestMetadataStaysOutside(t *testing.T) {
	t.Parallel()
	var got metadata.MD
	url := serve(t, func(_ any, s grpc.ServerStream) error {
		got, _ = metadata.FromIncomingContext(s.Context())
		_ = s.SetHeader(metadata.Pairs("internal", "x"))
		return status.Error(codes.Internal, "")
	})
	resp, _ := post(t, url+"/v1alpha2/container", strings.NewReader("{}"),
		"Grpc-Metadata-X-Slipway-Client-Ip", "1.2.3.4", "X-Slipway-Secret", "guess", "Grpc-Timeout", "1n", "Authorization", "Bearer x")
	for k := range got {
		if strings.Contains(k, "slipway") {
			t.Errorf("the metadata %s came in from outside", k)
		}
	}
	if got.Get("authorization")[0] != "Bearer x" {
		t.Error("the Authorization header did not come in")
	}
	for k := range resp.Header {
		if strings.HasPrefix(k, "Grpc-") {
			t.Errorf("the header %s went out", k)
		}
	}
}

// endless is a body of unknown length.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func TestBodyTooLarge(t *testing.T) {
	t.Parallel()
	url := serve(t, func(any, grpc.ServerStream) error { return errors.New("was called") })
	for name, body := range map[string]io.Reader{
		"announced":     strings.NewReader(strings.Repeat(" ", gateway.MaxBody+1)),
		"not announced": io.LimitReader(endless{}, gateway.MaxBody+1<<20),
	} {
		if resp, text := post(t, url+"/v1alpha2/container", body); resp.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(text, `"message"`) {
			t.Errorf("%s: got %d %s", name, resp.StatusCode, text)
		}
	}
}

// TestOneDocument checks that a body with data after its JSON document is rejected, since
// it does not mean what its sender expects.
func TestOneDocument(t *testing.T) {
	t.Parallel()
	url := serve(t, func(any, grpc.ServerStream) error { return errors.New("was called") })
	for _, body := range []string{`{} {}`, `{}{"freeze":true}`, `{}]`, `{} x`, `{"containerImage":"a"} {"containerImage":"b"}`} {
		resp, text := post(t, url+"/v1alpha2/container", strings.NewReader(body))
		if resp.StatusCode != http.StatusBadRequest || text != `{"message":"Invalid JSON request body","code":"request.invalid"}` {
			t.Errorf("%s: got %d %s", body, resp.StatusCode, text)
		}
	}
	if resp, text := post(t, url+"/v1alpha2/container", strings.NewReader(" {} \n")); resp.StatusCode == http.StatusBadRequest {
		t.Errorf("blanks are refused: %s", text)
	}
}

// TestHome checks the page at the root for browsers.
func TestHome(t *testing.T) {
	t.Parallel()
	url := serve(t, func(any, grpc.ServerStream) error { return errors.New("was called") })
	resp, page := exchange(t, http.MethodGet, url+"/", nil)
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") || !strings.Contains(string(page), `href="./openapi/"`) {
		t.Errorf("got %d %v %s", resp.StatusCode, resp.Header, page)
	}
	if resp, _ := exchange(t, http.MethodHead, url+"/", nil); resp.StatusCode != http.StatusOK {
		t.Errorf("HEAD: got %d", resp.StatusCode)
	}
	if resp, text := post(t, url+"/", nil); resp.StatusCode < 400 {
		t.Errorf("POST: got %d %s", resp.StatusCode, text)
	}
}

func FuzzRequestBody(f *testing.F) {
	f.Add(`{"containerImage":"x","containerConfig":{"layers":[{"gzipSize":"12"}]}}`)
	f.Add(`{"packages":{"condaOpts":null},"buildCompression":{"mode":"gzip"}}`)
	f.Add(`[1`)
	var h http.Handler
	f.Fuzz(func(t *testing.T, body string) {
		if h == nil {
			var err error
			if h, err = gateway.New(t.Context(), gateway.Conns{Container: refusing{}, Build: refusing{}, Inspect: refusing{}}); err != nil {
				t.Fatal(err)
			}
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/v1alpha2/container", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		w := &answer{header: http.Header{}}
		h.ServeHTTP(w, req)
		if w.code != http.StatusBadRequest && w.code != http.StatusInternalServerError {
			t.Errorf("%q answered %d %s", body, w.code, w.body)
		}
	})
}

// TestBodyOfADelete checks that a DELETE with a malformed body is rejected, although the
// body is not used.
func TestBodyOfADelete(t *testing.T) {
	t.Parallel()
	h, err := gateway.New(t.Context(), gateway.Conns{Container: refusing{}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	const called = http.StatusInternalServerError // from the service, which rejects every call
	for body, want := range map[string]int{"": called, " ": called, "{}": called, `{"a": [1`: http.StatusBadRequest, "nonsense": http.StatusBadRequest, `"` + strings.Repeat("a", 1<<17) + `"`: http.StatusRequestEntityTooLarge} {
		resp, raw := exchange(t, http.MethodDelete, server.URL+"/v1alpha2/container/abc123", strings.NewReader(body))
		if resp.StatusCode != want {
			t.Errorf("%.20q: %d %s", body, resp.StatusCode, raw)
		}
	}
}
