package upstream_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/upstream"
)

// nameServer is a DNS server that returns the IPv4 addresses of answer, and no IPv6
// addresses.
func nameServer(t testing.TB, answer func() []string) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			if reply, err := reply(buf[:n], answer); err == nil {
				_, _ = conn.WriteTo(reply, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp4", conn.LocalAddr().String())
	}}
}

func reply(query []byte, answer func() []string) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil || len(m.Questions) != 1 {
		return nil, errors.New("no question")
	}
	m.Header = dnsmessage.Header{ID: m.ID, Response: true, RecursionAvailable: true}
	m.Additionals = nil
	if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
		for _, a := range answer() {
			m.Answers = append(m.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class},
				Body:   &dnsmessage.AResource{A: netip.MustParseAddr(a).As4()},
			})
		}
	}
	return m.Pack()
}

func always(addresses ...string) func() []string { return func() []string { return addresses } }

func portOf(address string) string { return address[strings.LastIndexByte(address, ':'):] }

func TestNamesOfForbiddenAddresses(t *testing.T) {
	t.Parallel()
	address, asked := listen(t)
	for _, in := range []string{"169.254.169.254", "127.0.0.1", "10.0.0.1", "0.0.0.0"} {
		e := newEgress(t)
		e.Resolver = nameServer(t, always(in))
		_, err := e.DialContext(t.Context(), "tcp", "evil.test"+portOf(address))
		if e, ok := fault.As(err); !errors.Is(err, fault.Invalid) || !ok || !strings.Contains(e.Public, "evil.test") {
			t.Errorf("%s: got %v, want fault.Invalid with the name", in, err)
		}
	}
	if *asked != 0 {
		t.Error("a connection was made")
	}
}

func TestHostWhoseAddressChanges(t *testing.T) {
	t.Parallel()
	address, _ := listen(t)
	var questions atomic.Int64
	e := newEgress(t, "127.0.0.1")
	e.Resolver = nameServer(t, func() []string {
		if questions.Add(1) == 1 {
			return []string{"127.0.0.1"}
		}
		return []string{"169.254.169.254"}
	})
	conn, err := e.DialContext(t.Context(), "tcp", "rebind.test"+portOf(address))
	if err != nil {
		t.Fatalf("the first answer is allowed: %v", err)
	}
	_ = conn.Close()
	if _, err = e.DialContext(t.Context(), "tcp", "rebind.test"+portOf(address)); !errors.Is(err, fault.Invalid) {
		t.Errorf("the second answer is not allowed; got %v", err)
	}
}

func TestHostWithSeveralAddresses(t *testing.T) {
	t.Parallel()
	address, _ := listen(t)
	e := newEgress(t, "127.0.0.1")
	e.Resolver = nameServer(t, always("169.254.169.254", "127.0.0.1"))
	conn, err := e.DialContext(t.Context(), "tcp", "both.test"+portOf(address))
	if err != nil {
		t.Fatalf("one of them is allowed: %v", err)
	}
	defer conn.Close()
	if got := conn.RemoteAddr().String(); got != address {
		t.Errorf("connected to %s", got)
	}
}

func TestAllowedName(t *testing.T) {
	t.Parallel()
	address, _ := listen(t)
	e := newEgress(t, "registry.test")
	e.Resolver = nameServer(t, always("127.0.0.1"))
	c := http.Client{Transport: upstream.NewTransport(e)}
	resp, err := c.Get("http://registry.test" + portOf(address))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got, err := io.ReadAll(resp.Body); err != nil || string(got) != "here" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := c.Get("http://sub.registry.test" + portOf(address)); !errors.Is(err, fault.Invalid) {
		t.Errorf("a subdomain of an allowed name: %v", err)
	}
}

func TestClientRejectsForbiddenAddresses(t *testing.T) {
	t.Parallel()
	var questions atomic.Int64
	e := newEgress(t)
	e.Resolver = nameServer(t, func() []string { questions.Add(1); return []string{"169.254.169.254"} })
	c := newClient(t, e, "evil.test")
	_, err := c.Manifest(t.Context(), upstream.Repository{Host: "evil.test", Name: "a"}, "latest", upstream.Access{})
	if !errors.Is(err, fault.Invalid) {
		t.Errorf("got %v, want fault.Invalid", err)
	}
	if n := questions.Load(); n != 1 {
		t.Errorf("%d requests, want no retry", n)
	}
}
