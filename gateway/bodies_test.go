package gateway_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"slipway.dev/gateway"
)

// TestAttackBodyWithoutUser checks that the platform reads no large body of a rejected
// caller.
func TestAttackBodyWithoutUser(t *testing.T) {
	t.Parallel()
	h, err := gateway.NewPlatform(t.Context(), refusing{}, refusing{}, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, announced := range []bool{true, false} {
		body := &countedReader{Reader: strings.NewReader(strings.Repeat(" ", 4<<20))}
		r := httptest.NewRequestWithContext(gateway.WithBodyMemory(t.Context(), &bodyMemory{}), http.MethodPost, "/trace/create", body)
		r.Header.Set("Content-Type", "application/json")
		r.ContentLength = -1
		most := int64(gateway.SmallBody + 1)
		if announced {
			r.ContentLength, most = 4<<20, 0
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusInternalServerError || body.n > most {
			t.Errorf("announced %v: the status is %d, and %d bytes were read: %s", announced, w.Code, body.n, w.Body)
		}
	}
}

// TestLargeBodiesWait checks that memory is acquired for large bodies only, before they are
// read, and until the request has been handled.
func TestLargeBodiesWait(t *testing.T) {
	t.Parallel()
	h, err := gateway.New(t.Context(), gateway.Conns{Container: refusing{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name              string
		length, announced int64
		refuse            error
		acquired, want    int64
		turns             int
	}{
		{"quick", 100_000, 100_000, nil, 0, 400, 0},
		{"quick in chunks", 100_000, -1, nil, 0, 400, 0},
		{"small", gateway.SmallBody, gateway.SmallBody, nil, 0, 400, 1},
		{"small in chunks", gateway.SmallBody, -1, nil, 0, 400, 1},
		{"small, refused", gateway.SmallBody, gateway.SmallBody, status.Error(codes.Unavailable, ""), 0, 503, 0},
		{"large", 2 << 20, 2 << 20, nil, 2 << 20, 400, 1},
		{"large in chunks", 2 << 20, -1, nil, gateway.MaxBody, 400, 1},
		{"too large in chunks", gateway.MaxBody + 1, -1, nil, gateway.MaxBody, 413, 1},
		{"cut off", 1 << 20, 2 << 20, nil, 2 << 20, 400, 1},
		{"refused", 2 << 20, 2 << 20, status.Error(codes.Unavailable, ""), 2 << 20, 503, 0},
	} {
		m := &bodyMemory{err: c.refuse}
		body := &countedReader{Reader: strings.NewReader(strings.Repeat(" ", int(c.length)))}
		m.body = body
		r := httptest.NewRequestWithContext(gateway.WithBodyMemory(t.Context(), m), http.MethodPost, "/v1alpha2/container", body)
		r.ContentLength = c.announced
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != int(c.want) || m.acquired != c.acquired || m.held || m.before > gateway.SmallBody+1 {
			t.Errorf("%s: the status is %d, want %d; %d bytes were acquired, want %d, after %d were read; still held is %v: %s", c.name, w.Code, c.want, m.acquired, c.acquired, m.before, m.held, w.Body)
		}
		if m.taken != c.turns || m.turns != 0 {
			t.Errorf("%s: %d turns were taken, want %d, and %d were not ended", c.name, m.taken, c.turns, m.turns)
		}
	}
}

// TestTurnEndsBeforeCall checks that a body's turn has ended when the service is called, which
// may wait for long.
func TestTurnEndsBeforeCall(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/v1alpha2/container", "/v1alpha2/container/abc/name"} { // with and without a body of its own
		m := &bodyMemory{}
		called := false
		h, err := gateway.New(t.Context(), gateway.Conns{Container: calling{called: func() { called = m.taken == 1 && m.turns == 0 }}})
		if err != nil {
			t.Fatal(err)
		}
		body := strings.NewReader(`{"fingerprint":"` + strings.Repeat("a", 300_000) + `"}`)
		r := httptest.NewRequestWithContext(gateway.WithBodyMemory(t.Context(), m), http.MethodPost, path, body)
		h.ServeHTTP(httptest.NewRecorder(), r)
		if !called {
			t.Errorf("%s: %d turns were taken, and %d were held during the call", path, m.taken, m.turns)
		}
	}
}

// calling is a service that reports calls.
type calling struct {
	refusing
	called func()
}

func (c calling) Invoke(ctx context.Context, method string, in, out any, o ...grpc.CallOption) error {
	c.called()
	return c.refusing.Invoke(ctx, method, in, out, o...)
}

// TestAttackSlowBody checks that a slow body is aborted while others wait.
func TestAttackSlowBody(t *testing.T) {
	t.Parallel()
	h, err := gateway.New(t.Context(), gateway.Conns{Container: refusing{}})
	if err != nil {
		t.Fatal(err)
	}
	m := &bodyMemory{retryFor: 50 * time.Millisecond}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(gateway.WithBodyMemory(r.Context(), m)))
	}))
	t.Cleanup(server.Close)
	body, feed := io.Pipe()
	go func() { _, _ = feed.Write(make([]byte, 1<<20)) }()
	t.Cleanup(func() { _ = feed.Close() })
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/v1alpha2/container", body)
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = 2 << 20
	resp, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") != "5" || !strings.Contains(string(text), "too slowly") {
		t.Errorf("the status is %d, %v: %s, %v", resp.StatusCode, resp.Header, text, err)
	}
}

// countedReader counts the bytes that are read.
type countedReader struct {
	io.Reader
	n int64
}

func (r *countedReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.n += int64(n)
	return n, err
}

// bodyMemory implements gateway.BodyMemory.
type bodyMemory struct {
	err      error
	retryFor time.Duration
	body     *countedReader

	acquired, before int64
	held             bool
	// turns counts the turns that were taken and not ended.
	turns, taken int
}

func (m *bodyMemory) Turn(context.Context, string) (func(), error) {
	if m.err != nil {
		return nil, m.err
	}
	m.turns++
	m.taken++
	return func() { m.turns-- }, nil
}

func (m *bodyMemory) Acquire(ctx context.Context, user string, size int64) (context.Context, func(), error) {
	if m.acquired, m.held = size, true; m.body != nil {
		m.before = m.body.n
	}
	if user != "" {
		m.err = errors.New("the container service knows no user before it reads the body")
	}
	if m.err != nil {
		m.held = false
		return nil, nil, m.err
	}
	cancel := func() {}
	if m.retryFor > 0 {
		ctx, cancel = context.WithTimeout(ctx, m.retryFor)
	}
	return ctx, func() { cancel(); m.held = false }, nil
}
