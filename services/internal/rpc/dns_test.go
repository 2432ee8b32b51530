package rpc_test

import (
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"slipway.dev/services/internal/rpc"
)

// A dnsServer is a DNS server that returns one address, set by the test, for all names.
type dnsServer struct {
	net.PacketConn
	address atomic.Pointer[netip.Addr]
}

func newDNSServer(t *testing.T) *dnsServer {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &dnsServer{PacketConn: conn}
	t.Cleanup(func() { _ = conn.Close() })
	go n.serve()
	return n
}

func (n *dnsServer) serve() {
	buf := make([]byte, 512)
	for {
		size, from, err := n.ReadFrom(buf)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(buf[:size]) != nil || len(m.Questions) != 1 {
			continue
		}
		m.Response, m.Authoritative, m.Additionals = true, true, nil
		if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
			m.Answers = []dnsmessage.Resource{{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
				Body:   &dnsmessage.AResource{A: n.address.Load().As4()},
			}}
		}
		if raw, err := m.Pack(); err == nil {
			_, _ = n.WriteTo(raw, from)
		}
	}
}

// TestRestartedServiceIsReached stops a service for several seconds. The first call after its
// restart must succeed, although the connection was refused before.
func TestRestartedServiceIsReached(t *testing.T) {
	t.Parallel()
	before, after := newHarness(t, rpc.ServerOptions{}), newHarness(t, rpc.ServerOptions{})
	at := before.listen(t)
	conn := dial(t, at, rpc.DialOptions{})
	if err := call(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	before.server.Stop(t.Context())
	for stopped := time.Now(); time.Since(stopped) < 4*time.Second; { // each call is retried for half a second
		if err := call(t.Context(), conn); err == nil {
			t.Fatal("a stopped service responds")
		}
	}
	l, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = after.server.Serve(l) }()
	if err := call(t.Context(), conn); err != nil {
		t.Error(err)
	}
}

// TestReplacedReplicasAreFound replaces a replica sooner than the library's default
// interval between lookups, which is 30 seconds.
func TestReplacedReplicasAreFound(t *testing.T) {
	t.Parallel()
	dns := newDNSServer(t)
	before, after := newHarness(t, rpc.ServerOptions{}), newHarness(t, rpc.ServerOptions{})
	first, second := netip.MustParseAddrPort(before.listen(t)), netip.MustParseAddr("127.0.0.2")
	l, err := net.Listen("tcp", netip.AddrPortFrom(second, first.Port()).String())
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = after.server.Serve(l) }()

	address := first.Addr()
	dns.address.Store(&address)
	_, port, _ := strings.Cut(first.String(), ":")
	conn := dial(t, "dns://"+dns.LocalAddr().String()+"/service.test.:"+port, rpc.DialOptions{})
	if err := call(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	dns.address.Store(&second)
	before.server.Stop(t.Context())
	for stopped := time.Now(); ; {
		err := call(t.Context(), conn)
		if err == nil {
			break
		}
		if time.Since(stopped) > 20*time.Second {
			t.Fatalf("after 20 s: %v", err)
		}
	}
}
