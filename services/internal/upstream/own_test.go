package upstream_test

import (
	"errors"
	"net"
	"strings"
	"testing"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/upstream"
)

// TestEgressExcept verifies that a listener of this machine cannot be reached at any of its
// addresses, although all addresses are allowed.
func TestEgressExcept(t *testing.T) {
	t.Parallel()
	listen := func() string {
		l, err := net.Listen("tcp", ":0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		_, port, _ := net.SplitHostPort(l.Addr().String())
		return port
	}
	own, other := listen(), listen()
	hosts := []string{"127.0.0.1", "localhost", "127.0.0.2", "0.0.0.0", "::1", "::", "::ffff:127.0.0.1", "LOCALHOST", "127.1.2.3"}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if ip, _, _ := strings.Cut(a.String(), "/"); !strings.HasPrefix(ip, "fe80") {
			hosts = append(hosts, ip)
		}
	}
	everything, err := upstream.NewEgress(append([]string{"0.0.0.0/0", "::/0"}, hosts...))
	if err != nil {
		t.Fatal(err)
	}
	e := everything.Except([]string{"127.0.0.1:" + own, "192.0.2.7:0"})
	for _, h := range hosts {
		conn, err := e.DialContext(t.Context(), "tcp", net.JoinHostPort(h, own))
		if !errors.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", h, err)
		}
		if conn != nil {
			_ = conn.Close()
		}
		if conn, err = everything.DialContext(t.Context(), "tcp", net.JoinHostPort(h, own)); err == nil {
			_ = conn.Close()
		}
	}
	conn, err := e.DialContext(t.Context(), "tcp", "127.0.0.1:"+other)
	if err != nil {
		t.Fatalf("another port: %v", err)
	}
	_ = conn.Close()
}
