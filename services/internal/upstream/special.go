package upstream

import (
	"bytes"
	"net/netip"
)

// A block is a range of addresses that no public registry uses.
type block struct {
	prefix netip.Prefix
	name   string
}

// blocks returns all special-purpose addresses in the IANA registries for IPv4 and IPv6
// (RFC 6890 and its updates), also those that are globally reachable, which are used by
// protocols and not by registries. It adds multicast, reservations of older RFCs,
// unassigned IPv6 addresses, and the public addresses at which clouds serve their own
// machines.
func blocks() []block {
	p := netip.MustParsePrefix
	return []block{
		{p("0.0.0.0/8"), "this network"},
		{p("10.0.0.0/8"), "private use"},
		{p("100.64.0.0/10"), "shared address space"}, // Alibaba's metadata is here
		{p("127.0.0.0/8"), "loopback"},
		{p("161.26.0.0/16"), "IBM's services for its own machines"},
		{p("166.8.0.0/14"), "IBM's services for its own machines"},
		{p("168.63.129.16/32"), "Azure's platform services"},
		{p("169.254.0.0/16"), "link-local"}, // metadata of most clouds
		{p("172.16.0.0/12"), "private use"},
		{p("192.0.0.0/24"), "IETF protocol assignments"}, // Oracle's metadata is here
		{p("192.0.2.0/24"), "documentation (TEST-NET-1)"},
		{p("192.31.196.0/24"), "AS112-v4"},
		{p("192.52.193.0/24"), "AMT"},
		{p("192.80.8.124/32"), "Equinix's metadata"},
		{p("192.88.99.0/24"), "6to4 relay anycast"},
		{p("192.168.0.0/16"), "private use"},
		{p("192.175.48.0/24"), "direct delegation AS112 service"},
		{p("198.18.0.0/15"), "benchmarking"},
		{p("198.51.100.0/24"), "documentation (TEST-NET-2)"},
		{p("203.0.113.0/24"), "documentation (TEST-NET-3)"},
		{p("224.0.0.0/4"), "multicast"},
		{p("240.0.0.0/4"), "reserved, and limited broadcast"},

		// Unspecified, loopback, IPv4-compatible (RFC 4291) and IPv4-translated
		// (RFC 2765) addresses, NAT64 for local use (64:ff9b:1::/48), discard-only and
		// dummy prefixes (100::/64, 100:0:0:1::/64).
		{p("::/3"), "special purposes"},
		{p("2001::/23"), "IETF protocol assignments"}, // Teredo, benchmarking, AMT, AS112, ORCHID, drones
		{p("2001:db8::/32"), "documentation"},
		{p("2002::/16"), "6to4"},
		{p("2620:4f:8000::/48"), "direct delegation AS112 service"},
		{p("3fff::/20"), "documentation"},
		{p("4000::/2"), "unassigned, and segment routing (5f00::/16)"},
		{p("8000::/1"), "unassigned, unique local (fc00::/7), link-local (fe80::/10), site-local (fec0::/10), multicast (ff00::/8)"},
	}
}

// special are the blocks, created once.
var special = blocks()

// specialBlock returns the name of the block with an address, or "" for a public address.
func specialBlock(ip netip.Addr) string {
	for _, b := range special {
		if b.prefix.Contains(ip) {
			return b.name
		}
	}
	return ""
}

// nat64 addresses embed an IPv4 address in their last four bytes (RFC 6052).
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// translated returns the IPv4 address that an IPv6 address embeds. Tunnels with prefixes of
// their own (6to4, Teredo) are not included, because their prefixes are special blocks.
func translated(ip netip.Addr) (netip.Addr, bool) {
	if !ip.Is6() {
		return netip.Addr{}, false
	}
	b := ip.As16()
	inner := netip.AddrFrom4([4]byte(b[12:]))
	switch {
	case nat64.Contains(ip):
		return inner, true
	case isISATAP(b) && specialBlock(ip) == "" && specialBlock(inner) != "":
		return inner, true // a public prefix before a private address
	}
	return netip.Addr{}, false
}

// isISATAP reports whether an address has an interface identifier of RFC 5214, section 6.1.
func isISATAP(b [16]byte) bool {
	return b[8]&^2 == 0 && bytes.Equal(b[9:12], []byte{0, 0x5e, 0xfe})
}
