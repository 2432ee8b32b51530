package upstream

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"slipway.dev/services/internal/fault"
)

// Egress decides which addresses this service connects to on somebody's behalf:
// public ones, and those that configuration allows. The check is made when the
// connection is, on the address itself, so that neither a redirect nor a name
// that changes its mind passes it by. Safe for concurrent use.
type Egress struct {
	networks []netip.Prefix
	hosts    map[string]bool
	// Resolver finds addresses; nil is the machine's own.
	Resolver *net.Resolver
}

// special are ranges that are neither public nor found by netip's own questions.
var special = prefixes(
	"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15",
	"198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
	"64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16",
)

// nat64 addresses hold an IPv4 address in their last four bytes.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

func prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, s := range list {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}

// NewEgress reads the allowed addresses, networks, and host names with or
// without a port.
func NewEgress(allow []string) (*Egress, error) {
	e := &Egress{hosts: map[string]bool{}}
	for _, a := range allow {
		if p, err := netip.ParsePrefix(a); err == nil {
			e.networks = append(e.networks, p.Masked())
			continue
		}
		if ip, err := netip.ParseAddr(strings.Trim(a, "[]")); err == nil {
			e.networks = append(e.networks, netip.PrefixFrom(ip, ip.BitLen()))
			continue
		}
		if strings.ContainsAny(a, "/ @") {
			return nil, fmt.Errorf("egress_allow: %q is no address, network or host name", a)
		}
		e.hosts[strings.ToLower(a)] = true
	}
	return e, nil
}

// Allows says whether an address may be reached.
func (e *Egress) Allows(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	for _, p := range e.networks {
		if p.Contains(ip) {
			return true
		}
	}
	if nat64.Contains(ip) {
		b := ip.As16()
		return e.Allows(netip.AddrFrom4([4]byte(b[12:])))
	}
	if !ip.IsGlobalUnicast() || ip.IsPrivate() {
		return false
	}
	for _, p := range special {
		if p.Contains(ip) {
			return false
		}
	}
	return true
}

// DialContext connects to host:port if that is allowed; fault.Invalid if not.
func (e *Egress) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	d := net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second, Resolver: e.Resolver}
	if !e.hosts[strings.ToLower(host)] && !e.hosts[strings.ToLower(address)] {
		d.ControlContext = func(_ context.Context, _, resolved string, _ syscall.RawConn) error {
			return e.check(host, resolved)
		}
	}
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &patientConn{Conn: conn}, nil
}

func (e *Egress) check(host, resolved string) error {
	ap, err := netip.ParseAddrPort(resolved)
	if err == nil && e.Allows(ap.Addr()) {
		return nil
	}
	return fault.Invalid.New(fmt.Sprintf("%s is not a public address, and this service may not reach it (setting egress_allow)", host),
		fmt.Errorf("egress to %s refused", resolved))
}

// stall is how long a peer may be silent in the middle of an answer.
const stall = 60 * time.Second

// patientConn gives up on a peer that stops talking.
type patientConn struct{ net.Conn }

func (c *patientConn) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(stall)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}
