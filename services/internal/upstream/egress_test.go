package upstream_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/upstream"
)

func newEgress(t testing.TB, allow ...string) *upstream.Egress {
	t.Helper()
	e, err := upstream.NewEgress(allow)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestAllows(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, in string
		want     bool
	}{
		{"public", "8.8.8.8", true},
		{"public IPv6", "2606:4700:4700::1111", true},
		{"public, mapped", "::ffff:8.8.8.8", true},
		{"public, NAT64", "64:ff9b::808:808", true},
		{"before a private network", "172.15.255.255", true},
		{"after a private network", "172.32.0.0", true},
		{"before CGNAT", "100.63.255.255", true},
		{"after CGNAT", "100.128.0.0", true},

		{"loopback", "127.0.0.1", false},
		{"all of loopback", "127.255.255.254", false},
		{"loopback IPv6", "::1", false},
		{"loopback, mapped", "::ffff:127.0.0.1", false},
		{"loopback, NAT64", "64:ff9b::7f00:1", false},
		{"loopback, 6to4", "2002:7f00:1::", false},
		{"unspecified", "0.0.0.0", false},
		{"this network", "0.1.2.3", false},
		{"unspecified IPv6", "::", false},
		{"private 10", "10.1.2.3", false},
		{"private 172", "172.16.0.1", false},
		{"private 172, the end", "172.31.255.255", false},
		{"private 192", "192.168.1.1", false},
		{"private, mapped", "::ffff:10.1.2.3", false},
		{"private, NAT64", "64:ff9b::a01:203", false},
		{"unique local", "fc00::1", false},
		{"unique local, the used half", "fd12:3456::1", false},
		{"link-local", "169.254.1.1", false},
		{"link-local IPv6", "fe80::1", false},
		{"link-local with a zone", "fe80::1%eth0", false},
		{"CGNAT", "100.64.0.1", false},
		{"CGNAT, the end", "100.127.255.255", false},
		{"multicast", "224.0.0.1", false},
		{"multicast IPv6", "ff02::1", false},
		{"broadcast", "255.255.255.255", false},
		{"reserved", "240.0.0.1", false},
		{"documentation", "192.0.2.1", false},
		{"documentation IPv6", "2001:db8::1", false},
		{"benchmarks", "198.18.0.1", false},
		{"Teredo", "2001:0:7f00:1::", false},
		{"local NAT64", "64:ff9b:1::1", false},
		{"discard", "100::1", false},
		{"segment routing", "5f00::1", false},

		{"metadata", "169.254.169.254", false},
		{"metadata, mapped", "::ffff:169.254.169.254", false},
		{"metadata, NAT64", "64:ff9b::a9fe:a9fe", false},
		{"metadata, Amazon IPv6", "fd00:ec2::254", false},
		{"metadata, Google IPv6", "fd20:ce::254", false},
		{"metadata, Amazon containers", "169.254.170.2", false},
		{"metadata, Alibaba", "100.100.100.200", false},
		{"metadata, Oracle", "192.0.0.192", false},
	} {
		if got := newEgress(t).Allows(netip.MustParseAddr(tc.in)); got != tc.want {
			t.Errorf("%s: Allows(%s) = %v", tc.name, tc.in, got)
		}
	}
	if newEgress(t, "0.0.0.0/0").Allows(netip.Addr{}) {
		t.Error("the zero address is allowed")
	}
}

func TestAllowed(t *testing.T) {
	t.Parallel()
	e := newEgress(t, "10.1.0.0/16", "192.168.7.7", "fd12::/16", "[::1]", "registry.internal", "10.9.9.9/24")
	for _, tc := range []struct {
		name, in string
		want     bool
	}{
		{"in the network", "10.1.255.1", true},
		{"in the network, mapped", "::ffff:10.1.255.1", true},
		{"in the network, NAT64", "64:ff9b::a01:ff01", true},
		{"outside", "10.2.0.1", false},
		{"the address", "192.168.7.7", true},
		{"its neighbour", "192.168.7.8", false},
		{"IPv6", "fd12:1::1", true},
		{"IPv6 in brackets", "::1", true},
		{"a network written with host bits", "10.9.9.1", true},
		{"public ones still", "8.8.8.8", true},
		{"metadata still not", "169.254.169.254", false},
	} {
		if got := e.Allows(netip.MustParseAddr(tc.in)); got != tc.want {
			t.Errorf("%s: Allows(%s) = %v", tc.name, tc.in, got)
		}
	}
}

func TestNewEgressRefuses(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"10.0.0.0/33", "http://registry.internal", "a b", "user@host", "10.0.0.0/8/9"} {
		if _, err := upstream.NewEgress([]string{"10.0.0.0/8", in}); err == nil || !strings.Contains(err.Error(), in) {
			t.Errorf("%q: got %v, want an error that names it", in, err)
		}
	}
}

// listen serves "here" for all requests, which it counts in asked.
func listen(t testing.TB) (address string, asked *int) {
	t.Helper()
	asked = new(int)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		*asked++
		_, _ = w.Write([]byte("here"))
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://"), asked
}

func TestDial(t *testing.T) {
	t.Parallel()
	address, _ := listen(t)
	_, port, _ := net.SplitHostPort(address)
	for _, tc := range []struct {
		name, allow, address string
		want                 bool
	}{
		{"loopback", "10.0.0.0/8", address, false},
		{"loopback by name", "10.0.0.0/8", "localhost:" + port, false},
		{"an allowed address", "127.0.0.1", address, true},
		{"an allowed host", "localhost", "localhost:" + port, true},
		{"an allowed host, in capitals", "LocalHost", "LOCALHOST:" + port, true},
		{"an allowed host and port", "localhost:" + port, "localhost:" + port, true},
		{"another port", "localhost:1", "localhost:" + port, false},
		{"a host is not its address", "localhost", address, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			conn, err := newEgress(t, tc.allow).DialContext(t.Context(), "tcp4", tc.address)
			if err == nil {
				defer conn.Close()
			}
			if tc.want && err != nil || !tc.want && !errors.Is(err, fault.Invalid) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestDialNeedsAPort(t *testing.T) {
	t.Parallel()
	if _, err := newEgress(t).DialContext(context.Background(), "tcp", "localhost"); err == nil {
		t.Error("connected without a port")
	}
}

func BenchmarkAllows(b *testing.B) {
	e := newEgress(b, "10.0.0.0/8")
	ip := netip.MustParseAddr("140.82.121.3")
	b.ReportAllocs()
	for b.Loop() {
		if !e.Allows(ip) {
			b.Fatal("a public address is refused")
		}
	}
}
