package app

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"slipway.dev/services/internal/config"
	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/internal/testkit"
)

// TestAttackManyStreams opens event streams of one address without end. It only gets its
// share; another address gets what is left, and short calls still work.
func TestAttackManyStreams(t *testing.T) {
	t.Parallel()
	a := &App{env: &env{cfg: config.Config{StreamsClient: 2, StreamsTotal: 3}, reg: &collected{Registry: prometheus.NewRegistry()}}}
	begun, end := make(chan struct{}), make(chan struct{})
	h := a.withStreams(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/service-info" {
			begun <- struct{}{}
			<-end
		}
	}))
	ask := func(path, from string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		ctx := rpc.WithCall(context.Background(), rpc.Call{ClientIP: netip.MustParseAddr(from)})
		h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil))
		return w
	}
	const events, logs = "/v1alpha1/builds/0123456789abcdef_1/events", "/v1alpha1/builds/0123456789abcdef_1/logs"
	ended := make(chan int, 3)
	open := func(path, from string) {
		go func() { ended <- ask(path, from).Code }()
		<-begun
	}
	open(events, "2001:db8::1")
	open(logs, "2001:db8::2")
	if w := ask(events, "2001:db8::3"); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "5" {
		t.Errorf("a third stream of one /64 is answered %d, %v: %s", w.Code, w.Header(), w.Body)
	}
	open("/v1alpha2/container/abc/sif", "192.0.2.1")
	if w := ask(events, "192.0.2.1"); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("a fourth stream in all is answered %d, %v: %s", w.Code, w.Header(), w.Body)
	}
	if w := ask("/service-info", "2001:db8::3"); w.Code != http.StatusOK {
		t.Errorf("a short call is answered %d", w.Code)
	}
	close(end)
	for range 3 {
		if code := <-ended; code != http.StatusOK {
			t.Errorf("a stream ends with %d", code)
		}
	}
	go func() { <-begun }()
	if w := ask(events, "2001:db8::3"); w.Code != http.StatusOK {
		t.Errorf("after the others have ended a stream is answered %d", w.Code)
	}
}

// TestAttackManyConnections checks the limit of concurrent connections of an address, and
// that a trusted proxy has none.
func TestAttackManyConnections(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		proxies []netip.Prefix
		want    int
	}{
		{"a client", nil, 2},
		{"a proxy", []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.NotFoundHandler()}
			go func() {
				_ = server.Serve(limitedListener{l, fairshare.New(fairshare.Config{Name: "connections", PerClient: 2}), tc.proxies})
			}()
			t.Cleanup(func() { _ = server.Close() })
			served := func(c net.Conn) bool {
				_, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
				if err == nil {
					_, err = c.Read(make([]byte, 1))
				}
				return err == nil
			}
			got := 0
			var conns []net.Conn
			for range 4 {
				c, err := net.Dial("tcp", l.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				conns = append(conns, c)
				if served(c) {
					got++
				}
			}
			if got != tc.want {
				t.Errorf("%d of 4 connections are served, want %d", got, tc.want)
			}
			_ = conns[0].Close()
			testkit.Until(t, "a closed connection's place", func() error {
				c, err := net.Dial("tcp", l.Addr().String())
				if err == nil {
					defer c.Close()
					if !served(c) {
						err = errors.New("one more is not served")
					}
				}
				return err
			})
		})
	}
}
