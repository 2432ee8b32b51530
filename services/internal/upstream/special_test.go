package upstream_test

import (
	"net/netip"
	"testing"
)

// TestSpecialPurposeAddresses checks the IANA registries row by row: the first and the last
// address of each block are denied, and their neighbours are as listed in the table.
func TestSpecialPurposeAddresses(t *testing.T) {
	t.Parallel()
	const pub, shut = true, false
	for _, tc := range []struct {
		name, block   string
		before, after bool // whether the neighbours are public
	}{
		{"this network", "0.0.0.0/8", shut, pub},
		{"this host on this network", "0.0.0.0/32", shut, shut},
		{"private use", "10.0.0.0/8", pub, pub},
		{"shared address space", "100.64.0.0/10", pub, pub},
		{"loopback", "127.0.0.0/8", pub, pub},
		{"link-local", "169.254.0.0/16", pub, pub},
		{"private use", "172.16.0.0/12", pub, pub},
		{"IETF protocol assignments", "192.0.0.0/24", pub, pub},
		{"IPv4 service continuity", "192.0.0.0/29", pub, shut},
		{"IPv4 dummy address", "192.0.0.8/32", shut, shut},
		{"port control protocol anycast", "192.0.0.9/32", shut, shut},
		{"TURN anycast", "192.0.0.10/32", shut, shut},
		{"NAT64/DNS64 discovery", "192.0.0.170/31", shut, shut},
		{"TEST-NET-1", "192.0.2.0/24", pub, pub},
		{"AS112-v4", "192.31.196.0/24", pub, pub},
		{"AMT", "192.52.193.0/24", pub, pub},
		{"6to4 relay anycast", "192.88.99.0/24", pub, pub},
		{"private use", "192.168.0.0/16", pub, pub},
		{"direct delegation AS112 service", "192.175.48.0/24", pub, pub},
		{"benchmarking", "198.18.0.0/15", pub, pub},
		{"TEST-NET-2", "198.51.100.0/24", pub, pub},
		{"TEST-NET-3", "203.0.113.0/24", pub, pub},
		{"multicast", "224.0.0.0/4", pub, shut},
		{"reserved", "240.0.0.0/4", shut, shut},
		{"limited broadcast", "255.255.255.255/32", shut, shut},

		{"unspecified", "::/128", shut, shut},
		{"loopback", "::1/128", shut, shut},
		{"IPv4-compatible", "::/96", shut, shut},
		{"IPv4-translated", "::ffff:0:0:0/96", shut, shut},
		{"IPv4-IPv6 translation, local use", "64:ff9b:1::/48", shut, shut},
		{"discard-only", "100::/64", shut, shut},
		{"dummy prefix", "100:0:0:1::/64", shut, shut},
		{"IETF protocol assignments", "2001::/23", pub, pub},
		{"Teredo", "2001::/32", pub, shut},
		{"port control protocol anycast", "2001:1::1/128", shut, shut},
		{"TURN anycast", "2001:1::2/128", shut, shut},
		{"DNS-SD service registration anycast", "2001:1::3/128", shut, shut},
		{"benchmarking", "2001:2::/48", shut, shut},
		{"AMT", "2001:3::/32", shut, shut},
		{"AS112-v6", "2001:4:112::/48", shut, shut},
		{"ORCHID", "2001:10::/28", shut, shut},
		{"ORCHIDv2", "2001:20::/28", shut, shut},
		{"drone remote identification", "2001:30::/28", shut, shut},
		{"documentation", "2001:db8::/32", pub, pub},
		{"6to4", "2002::/16", pub, pub},
		{"direct delegation AS112 service", "2620:4f:8000::/48", pub, pub},
		{"documentation", "3fff::/20", pub, pub},
		{"before and after global unicast", "4000::/3", pub, shut},
		{"segment routing identifiers", "5f00::/16", shut, shut},
		{"unique local", "fc00::/7", shut, shut},
		{"link-local unicast", "fe80::/10", shut, shut},
		{"site-local", "fec0::/10", shut, shut},
		{"multicast", "ff00::/8", shut, shut},
	} {
		e, p := newEgress(t), netip.MustParsePrefix(tc.block)
		first, last := p.Addr(), lastOf(p)
		for _, ip := range []netip.Addr{first, last} {
			if e.Allows(ip) {
				t.Errorf("%s (%s): %s is allowed", tc.name, tc.block, ip)
			}
		}
		for ip, want := range map[netip.Addr]bool{first.Prev(): tc.before, last.Next(): tc.after} {
			if ip.IsValid() && e.Allows(ip) != want {
				t.Errorf("%s (%s): its neighbour %s: allowed is %v", tc.name, tc.block, ip, !want)
			}
		}
	}
}

func lastOf(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for bit := p.Bits(); bit < len(b)*8; bit++ {
		b[bit/8] |= 0x80 >> (bit % 8)
	}
	ip, _ := netip.AddrFromSlice(b)
	return ip
}

// TestEmbeddedAddresses checks all ways to embed an IPv4 address in an IPv6 address.
func TestEmbeddedAddresses(t *testing.T) {
	t.Parallel()
	e := newEgress(t, "10.9.0.0/16")
	for _, tc := range []struct {
		name, in string
		want     bool
	}{
		{"mapped, private", "::ffff:192.168.0.1", false},
		{"mapped, public", "::ffff:8.8.8.8", true},
		{"compatible, loopback", "::127.0.0.1", false},
		{"compatible, public", "::8.8.8.8", false},
		{"translated, loopback", "::ffff:0:127.0.0.1", false},
		{"NAT64, metadata", "64:ff9b::169.254.169.254", false},
		{"NAT64, Azure", "64:ff9b::168.63.129.16", false},
		{"NAT64, allowed", "64:ff9b::10.9.1.1", true},
		{"NAT64, public", "64:ff9b::8.8.8.8", true},
		{"NAT64 for local use", "64:ff9b:1::8.8.8.8", false},
		{"6to4, metadata", "2002:a9fe:a9fe::1", false},
		{"6to4, public", "2002:808:808::1", false},
		{"Teredo", "2001:0:808:808::f7f7:f7f7", false},
		{"ISATAP, private", "2a00:1450:4001:800:0:5efe:10.0.0.1", false},
		{"ISATAP, private, global", "2a00:1450:4001:800:200:5efe:192.168.0.1", false},
		{"ISATAP, loopback", "2a00:1450:4001:800:0:5efe:127.0.0.1", false},
		{"ISATAP, public", "2a00:1450:4001:800:0:5efe:8.8.8.8", true},
		{"ISATAP, in a unique local network", "fd00::5efe:8.8.8.8", false},
		{"an ordinary address that looks much like it", "2a00:1450:4001:800:1:5efe:10.0.0.1", true},
	} {
		if got := e.Allows(netip.MustParseAddr(tc.in)); got != tc.want {
			t.Errorf("%s: Allows(%s) = %v", tc.name, tc.in, got)
		}
	}
}

// TestCloudAddresses checks the addresses of the metadata services of clouds.
func TestCloudAddresses(t *testing.T) {
	t.Parallel()
	for name, list := range map[string][]string{
		"Amazon":       {"169.254.169.254", "fd00:ec2::254", "169.254.169.253", "fd00:ec2::253", "169.254.169.123", "fd00:ec2::123", "169.254.170.2", "169.254.170.23", "fd00:ec2::23"},
		"Google":       {"169.254.169.254", "fd20:ce::254"},
		"Azure":        {"169.254.169.254", "168.63.129.16"},
		"Alibaba":      {"100.100.100.200"},
		"Tencent":      {"169.254.0.23", "169.254.10.10"},
		"Oracle":       {"169.254.169.254", "192.0.0.192", "fd00:c1::a9fe:a9fe"},
		"DigitalOcean": {"169.254.169.254"},
		"Hetzner":      {"169.254.169.254", "fe80::a9fe:a9fe"},
		"IBM":          {"169.254.169.254", "161.26.0.10", "166.9.1.2"},
		"OpenStack":    {"169.254.169.254", "fe80::a9fe:a9fe"},
		"Scaleway":     {"169.254.42.42", "fd00:42::42"},
		"Equinix":      {"192.80.8.124"},
	} {
		for _, in := range list {
			if newEgress(t).Allows(netip.MustParseAddr(in)) {
				t.Errorf("%s: %s is allowed", name, in)
			}
		}
	}
}
