package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/gateway"
)

type logStream = grpc.ServerStreamingServer[buildv1.StreamLogsResponse]

// instantLogs is the gateway in front of one service, with shorter timeouts.
type instantLogs struct {
	ctx                                 context.Context //nolint:containedctx // ends when the gateway drains
	silence, keepAlive, retryFor, stall time.Duration
}

func (q instantLogs) serve(t *testing.T, b *buildService) string {
	t.Helper()
	web := httptest.NewServer(q.handler(t, b))
	t.Cleanup(web.Close)
	return web.URL + "/v1alpha1/builds/beef_1"
}

func (q instantLogs) handler(t *testing.T, b *buildService) http.Handler {
	t.Helper()
	or := func(d, otherwise time.Duration) time.Duration {
		if d == 0 {
			return otherwise
		}
		return d
	}
	if q.ctx == nil {
		q.ctx = t.Context()
	}
	h, err := gateway.NewWithTimeouts(q.ctx, gateway.Conns{Build: b.dial(t)},
		or(q.silence, time.Minute), or(q.keepAlive, time.Minute), or(q.retryFor, time.Minute), or(q.stall, time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func get(t *testing.T, url string, header ...string) *http.Response {
	t.Helper()
	return send(t, http.MethodGet, url, nil, header...)
}

// await reads up to a line that begins with want, and returns everything before it.
func await(t *testing.T, r *bufio.Reader, want string) string {
	t.Helper()
	var before strings.Builder
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("no %q after %q: %v", want, before.String(), err)
		}
		if strings.HasPrefix(line, want) {
			return before.String()
		}
		before.WriteString(line)
	}
}

// wantText returns the text of lines 1 to n.
func wantText(n int) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	return b.String()
}

func ordinals(events string) (ids []string) {
	for e := range strings.SplitSeq(events, "\n\n") {
		if id, ok := strings.CutPrefix(e, "event: log\nid: "); ok {
			ids = append(ids, strings.SplitN(id, "\n", 2)[0])
		}
	}
	return ids
}

// TestLinesArriveAsTheyAreWritten also checks that a log outlives the timeouts of other
// calls, and the server's own read timeout.
func TestLinesArriveAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	for path, prefix := range map[string]string{"/logs?follow=true": "", "/events": "data: "} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { linesArrive(t, path, prefix) })
		})
	}
}

func linesArrive(t *testing.T, path, prefix string) {
	next := make(chan int64)
	b := &buildService{turn: func(_ int, _ *buildv1.StreamLogsRequest, s logStream) error {
		for n := range next {
			_ = s.Send(lines(n, n))
		}
		return s.Send(succeeded())
	}}
	t.Cleanup(b.start())
	// In memory, since a socket's deadlines do not use the test's clock.
	l := bufconn.Listen(1 << 16)
	server := &http.Server{Handler: instantLogs{silence: time.Hour, keepAlive: time.Hour}.handler(t, b), ReadTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return l.DialContext(ctx) }}
	t.Cleanup(transport.CloseIdleConnections)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://memory/v1alpha1/builds/beef_1"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() { next <- 1 }()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	r := bufio.NewReader(resp.Body)
	await(t, r, prefix+"line 1")
	next <- 2
	await(t, r, prefix+"line 2")
	time.Sleep(10 * time.Minute) //nolint:forbidigo // of the test's clock; more than a call, or reading one, may take
	next <- 3
	await(t, r, prefix+"line 3")
	close(next)
	if _, err := io.ReadAll(r); err != nil {
		t.Error(err)
	}
}

// script is a log of six lines, some of which are sent again after a reconnect. The service
// fails twice with the error leave.
func script(t *testing.T, leave error) *buildService {
	return &buildService{turn: func(n int, req *buildv1.StreamLogsRequest, s logStream) error {
		if want := int64(2 * (n - 1)); req.GetAfter() != want {
			t.Errorf("call %d asks for lines after %d, want %d", n, req.GetAfter(), want)
		}
		if n == 3 {
			_ = s.Send(lines(3, 6))
			return s.Send(succeeded())
		}
		_ = s.Send(lines(int64(2*n-1), int64(2*n)))
		return leave
	}}
}

func TestServiceStops(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]error{
		"with a status":  status.Error(codes.Unavailable, "stopping"),
		"without status": nil,
		"cancelled":      status.Error(codes.Canceled, "the caller went away"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for path, check := range map[string]func(string) bool{
				"/logs?follow=true": func(s string) bool { return s == wantText(6) },
				"/events": func(s string) bool {
					return strings.Join(ordinals(s), " ") == "1 2 3 4 5 6" && strings.Count(s, "event: done") == 1
				},
			} {
				b := script(t, leave)
				stop := b.start()
				body, err := io.ReadAll(get(t, instantLogs{}.serve(t, b)+path).Body)
				stop()
				if err != nil || !check(string(body)) {
					t.Errorf("%s: %v, %s", path, err, body)
				}
			}
		})
	}
}

// TestServiceIsKilled checks that another replica continues after the last line of the killed
// one.
func TestServiceIsKilled(t *testing.T) {
	t.Parallel()
	b := &buildService{turn: func(n int, req *buildv1.StreamLogsRequest, s logStream) error {
		if n == 1 {
			_ = s.Send(lines(1, 3))
			<-s.Context().Done()
			return s.Context().Err()
		}
		_ = s.Send(lines(req.GetAfter()+1, 6))
		return s.Send(succeeded())
	}}
	kill := b.start()
	r := bufio.NewReader(get(t, instantLogs{}.serve(t, b)+"/events").Body)
	await(t, r, "data: line 3")
	kill()
	t.Cleanup(b.start())
	rest, err := io.ReadAll(r)
	if got := strings.Join(ordinals(strings.TrimSpace(string(rest))), " "); err != nil || got != "4 5 6" {
		t.Errorf("then came %s, %v", got, err)
	}
}

// TestRetryTimeout checks that an incomplete log cannot be mistaken for a complete one.
func TestRetryTimeout(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"unavailable": status.Error(codes.Unavailable, "gone"),
		"broken":      status.Error(codes.Internal, "boom"),
	} {
		for _, path := range []string{"/logs", "/logs?follow=true", "/events"} {
			t.Run(name+path, func(t *testing.T) {
				t.Parallel()
				b := &buildService{turn: func(n int, _ *buildv1.StreamLogsRequest, s logStream) error {
					if n == 1 {
						_ = s.Send(lines(1, 2))
					}
					return err
				}}
				t.Cleanup(b.start())
				resp := get(t, instantLogs{retryFor: 20 * time.Millisecond}.serve(t, b)+path)
				body, err := io.ReadAll(resp.Body)
				if resp.StatusCode != http.StatusOK || err == nil || !strings.Contains(string(body), "line 2\n") || strings.Contains(string(body), "message") {
					t.Errorf("got %d, %v, %s", resp.StatusCode, err, body)
				}
			})
		}
	}
}

func TestErrorsBeforeTheFirstByte(t *testing.T) {
	t.Parallel()
	for code, want := range map[codes.Code]int{codes.Unavailable: 503, codes.Internal: 500, codes.OK: 503} {
		b := &buildService{turn: func(int, *buildv1.StreamLogsRequest, logStream) error { return status.Error(code, "") }}
		t.Cleanup(b.start())
		resp := get(t, instantLogs{}.serve(t, b)+"/events")
		body, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != want || resp.Header.Get("Content-Type") != "application/json" || !strings.HasPrefix(string(body), `{"message":`) || b.turns.Load() != 1 {
			t.Errorf("%s: got %d %s %v after %d calls", code, resp.StatusCode, body, resp.Header, b.turns.Load())
		}
	}
}

// TestSilence checks a queued build without lines: the client and proxies in between learn
// that the connection is alive.
func TestSilence(t *testing.T) {
	t.Parallel()
	b := &buildService{turn: func(_ int, _ *buildv1.StreamLogsRequest, s logStream) error {
		<-s.Context().Done()
		return nil
	}}
	t.Cleanup(b.start())
	url := instantLogs{silence: time.Millisecond, keepAlive: 10 * time.Millisecond}.serve(t, b)
	if resp := get(t, url+"/logs?follow=true"); resp.StatusCode != http.StatusOK {
		t.Errorf("got %d", resp.StatusCode)
	}
	r := bufio.NewReader(get(t, url+"/events").Body)
	if before := await(t, r, ": keep-alive"); before != "retry: 1000\n\n" {
		t.Errorf("before it came %q", before)
	}
	await(t, r, ": keep-alive")
}

// TestEmptyLog checks that an empty log ends immediately.
func TestEmptyLog(t *testing.T) {
	t.Parallel()
	b := &buildService{turn: func(int, *buildv1.StreamLogsRequest, logStream) error { return nil }}
	t.Cleanup(b.start())
	resp := get(t, instantLogs{}.serve(t, b)+"/logs")
	if body, err := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK || len(body) > 0 || err != nil {
		t.Errorf("got %d %q %v", resp.StatusCode, body, err)
	}
}

func TestResume(t *testing.T) {
	t.Parallel()
	b := &buildService{turn: func(_ int, req *buildv1.StreamLogsRequest, s logStream) error {
		_ = s.Send(lines(req.GetAfter()+1, 5))
		return s.Send(succeeded())
	}}
	t.Cleanup(b.start())
	url := instantLogs{}.serve(t, b)
	for _, c := range []struct{ header, query, want string }{
		{"", "", "1 2 3 4 5"}, {"0", "", "1 2 3 4 5"}, {"3", "", "4 5"}, {"", "?lastEventId=4", "5"}, {"4", "?lastEventId=1", "5"}, {"5", "", ""},
	} {
		body, err := io.ReadAll(get(t, url+"/events"+c.query, "Last-Event-ID", c.header).Body)
		if got := strings.Join(ordinals(string(body)), " "); err != nil || got != c.want || !strings.Contains(string(body), "event: done\nid: 5\n") {
			t.Errorf("%+v: got %s, %v\n%s", c, got, err, body)
		}
	}
	for _, odd := range []string{"-1", "1.5", "99999999999999999999", "x"} {
		if resp := get(t, url+"/events", "Last-Event-ID", odd); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: got %d", odd, resp.StatusCode)
		}
	}
}

// TestTimes requests the times of lines. A log of an earlier release has none.
func TestTimes(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 31, 12, 0, 0, 250_000_000, time.UTC).UnixMilli()
	b := &buildService{turn: func(_ int, req *buildv1.StreamLogsRequest, s logStream) error {
		list := lines(req.GetAfter()+1, 4).GetLines()
		for _, l := range list {
			l.TimeMs = []int64{0, at, at, at + 1000}[l.GetOrdinal()-1]
		}
		_ = s.Send(&buildv1.StreamLogsResponse{Lines: list})
		if req.GetFollow() {
			return s.Send(succeeded())
		}
		return nil
	}}
	t.Cleanup(b.start())
	url := instantLogs{}.serve(t, b)
	read := func(path string) string {
		t.Helper()
		body, err := io.ReadAll(get(t, url+path).Body)
		if err != nil {
			t.Error(err)
		}
		return string(body)
	}
	plain := strings.SplitAfter(read("/logs"), "\n")
	if got, want := read("/logs?times=true"), plain[0]+"2026-01-31T12:00:00.250Z "+plain[1]+"2026-01-31T12:00:00.250Z "+plain[2]+"2026-01-31T12:00:01.250Z "+plain[3]; got != want {
		t.Errorf("the text is %q, want %q", got, want)
	}
	for path, want := range map[string]int{"/events": 0, "/events?times=false": 0, "/events?times=true": 2, "/events?times=1&lastEventId=2": 2, "/events?times=true&lastEventId=3": 1} {
		if got := strings.Count(read(path), "event: time\n"); got != want {
			t.Errorf("%s has %d times, want %d", path, got, want)
		}
	}
	if all := read("/events?times=true"); !strings.Contains(all, "event: time\nid: 1\ndata: 2026-01-31T12:00:00.250Z\n\nevent: log\nid: 2\n") {
		t.Errorf("the events are %s", all)
	}
	for _, path := range []string{"/logs?times=x", "/events?times=x"} {
		if resp := get(t, url+path); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: got %d", path, resp.StatusCode)
		}
	}
}

// TestClientLeaves checks that the log is no longer read for a client that has disconnected
// or does not read.
func TestClientLeaves(t *testing.T) {
	t.Parallel()
	for name, keep := range map[string]bool{"gone": false, "stuck": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ended := make(chan struct{})
			b := &buildService{turn: func(_ int, _ *buildv1.StreamLogsRequest, s logStream) error {
				defer close(ended)
				long := &buildv1.LogLine{Text: strings.Repeat("x", 100_000)}
				for {
					long.Ordinal++
					if err := s.Send(&buildv1.StreamLogsResponse{Lines: []*buildv1.LogLine{long}}); err != nil {
						return err
					}
				}
			}}
			t.Cleanup(b.start())
			resp := get(t, instantLogs{stall: 100 * time.Millisecond}.serve(t, b)+"/events")
			if !keep {
				_ = resp.Body.Close()
			}
			<-ended
		})
	}
}

// TestSlowClient checks that a slow client gets everything, and that the service waits for
// it.
func TestSlowClient(t *testing.T) {
	t.Parallel()
	const count = 200
	pause := make(chan struct{})
	b := &buildService{turn: func(_ int, _ *buildv1.StreamLogsRequest, s logStream) error {
		for n := int64(1); n <= count; n++ {
			_ = s.Send(&buildv1.StreamLogsResponse{Lines: []*buildv1.LogLine{{Ordinal: n, Text: strings.Repeat("x", 100_000)}}})
		}
		return s.Send(succeeded())
	}}
	t.Cleanup(b.start())
	resp := get(t, instantLogs{}.serve(t, b)+"/logs?follow=true")
	time.AfterFunc(100*time.Millisecond, func() { close(pause) })
	<-pause
	r := bufio.NewReaderSize(resp.Body, 200_000)
	got := 0
	for ; ; got++ {
		if _, err := r.ReadSlice('\n'); err != nil {
			break
		}
	}
	if got != count {
		t.Errorf("got %d of %d lines", got, count)
	}
}

// TestDrain checks that followed logs end, so that their clients reconnect elsewhere, and
// that other requests continue.
func TestDrain(t *testing.T) {
	t.Parallel()
	ctx, drain := context.WithCancel(t.Context())
	b := &buildService{turn: func(_ int, _ *buildv1.StreamLogsRequest, s logStream) error {
		_ = s.Send(lines(1, 1))
		<-s.Context().Done()
		return nil
	}}
	t.Cleanup(b.start())
	url := instantLogs{ctx: ctx}.serve(t, b)
	r := bufio.NewReader(get(t, url+"/events").Body)
	await(t, r, "data: line 1")
	drain()
	if _, err := io.ReadAll(r); err == nil {
		t.Error("the log looks complete")
	}
	if resp := get(t, url+"/status"); resp.StatusCode != http.StatusNotImplemented && resp.StatusCode != http.StatusInternalServerError {
		t.Errorf("the status answers %d", resp.StatusCode)
	}
}

func TestLogsPassTheCallerOn(t *testing.T) {
	t.Parallel()
	b := &buildService{turn: func(_ int, _ *buildv1.StreamLogsRequest, s logStream) error {
		md, _ := metadata.FromIncomingContext(s.Context())
		_ = s.Send(&buildv1.StreamLogsResponse{Lines: []*buildv1.LogLine{{Ordinal: 1, Text: strings.Join(md.Get("authorization"), ",")}}})
		return nil
	}}
	t.Cleanup(b.start())
	body, _ := io.ReadAll(get(t, instantLogs{}.serve(t, b)+"/logs", "Authorization", "Bearer x").Body)
	if string(body) != "Bearer x\n" {
		t.Errorf("the service got %q", body)
	}
}
