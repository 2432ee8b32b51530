package fairshare_test

import (
	"net/netip"
	"testing"

	"slipway.dev/services/internal/fairshare"
)

// TestTally checks that users come before strangers, then those that hold less, and that
// addresses of one network count as one client.
func TestTally(t *testing.T) {
	t.Parallel()
	ip := func(s string) fairshare.Client { return fairshare.Address(netip.MustParseAddr(s)) }
	ada, bob := fairshare.User("ada"), fairshare.User("bob")
	var all fairshare.Tally
	for _, c := range []fairshare.Client{ada, ada, ip("2001:db8:1:1::1"), ip("2001:db8:1:2::1"), ip("2001:db8:2:100::1"), ip("192.0.2.1")} {
		all.Add(c, 1)
	}
	for _, c := range []struct {
		name        string
		first, then fairshare.Client
		want        int
	}{
		{"the user that holds less", bob, ada, -1},
		{"a user that holds more than a stranger", ada, ip("198.51.100.1"), -1},
		{"the service", fairshare.Service(), ip("198.51.100.1"), -1},
		{"the same user", ada, ada, 0},
		{"the same /64", ip("2001:db8:1:1::1"), ip("2001:db8:1:1::2"), 0},
		{"the network that holds less", ip("2001:db8:2:100::1"), ip("2001:db8:1:9::1"), -1},
		{"the /56 that holds less", ip("2001:db8:2:200::1"), ip("2001:db8:2:100::1"), -1},
		{"the /64 that holds less", ip("2001:db8:1:3::1"), ip("2001:db8:1:2::1"), -1},
		{"the address that holds less", ip("192.0.2.2"), ip("192.0.2.1"), -1},
		{"IPv4 and IPv6", ip("192.0.2.1"), ip("2001:db8:1:1::1"), -1},
	} {
		if got := all.Compare(c.first, c.then); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
		if got := all.Compare(c.then, c.first); got != -c.want {
			t.Errorf("%s, reversed: %d, want %d", c.name, got, -c.want)
		}
	}
}

// TestParseClient checks that a client is parsed as it was written.
func TestParseClient(t *testing.T) {
	t.Parallel()
	for _, c := range []fairshare.Client{
		fairshare.User("17@platform.example"), fairshare.Address(netip.MustParseAddr("192.0.2.1")), fairshare.Address(netip.MustParseAddr("2001:db8::1")),
		fairshare.Address(netip.MustParseAddr("::ffff:192.0.2.1")), fairshare.Service(), {},
	} {
		if got := fairshare.ParseClient(c.String()); got != c {
			t.Errorf("%s is parsed as %s", c, got)
		}
	}
	for _, text := range []string{"", "user:", "ip:", "ip:nonsense", "ip:2001:db8::/200", "nonsense"} {
		if got := fairshare.ParseClient(text); got != (fairshare.Client{}) {
			t.Errorf("%q is parsed as %s", text, got)
		}
	}
}
