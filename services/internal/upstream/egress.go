package upstream

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"slipway.dev/services/internal/fault"
)

// An Egress restricts the addresses that this service connects to for users: to public
// addresses and those that the configuration allows. The check is made on the resolved
// address of each connection, so that redirects and changing DNS records cannot bypass it.
// It is safe for concurrent use.
type Egress struct {
	networks []netip.Prefix
	hosts    map[string]bool
	own      []string // ports of this machine that are always denied
	// Resolver resolves names. If nil, the system's resolver is used.
	Resolver *net.Resolver
}

// NewEgress returns an Egress that allows the given addresses, networks, and host names
// with or without a port.
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
			return nil, fmt.Errorf("egress_allow: %q is not an address, network, or host name", a)
		}
		e.hosts[strings.ToLower(a)] = true
	}
	return e, nil
}

// Allows reports whether connections to an address are allowed. For an IPv6 address that
// embeds an IPv4 address, the IPv4 address is checked as well.
func (e *Egress) Allows(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	for _, p := range e.networks {
		if p.Contains(ip) {
			return true
		}
	}
	if inner, ok := translated(ip); ok {
		return e.Allows(inner)
	}
	return ip.IsValid() && specialBlock(ip) == ""
}

// DialContext connects to host:port. It returns fault.Invalid if the address is not allowed.
func (e *Egress) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	d := net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second, Resolver: e.Resolver}
	named := e.hosts[strings.ToLower(host)] || e.hosts[strings.ToLower(address)]
	d.ControlContext = func(_ context.Context, _, resolved string, _ syscall.RawConn) error {
		if err := e.checkOwn(resolved); err != nil || named {
			return err
		}
		return e.check(host, resolved)
	}
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &stallConn{Conn: conn}, nil
}

func (e *Egress) check(host, resolved string) error {
	ap, err := netip.ParseAddrPort(resolved)
	if err == nil && e.Allows(ap.Addr()) {
		return nil
	}
	return fault.Invalid.New(fmt.Sprintf("%s is not a public address, and this service may not reach it (setting egress_allow)", host),
		fmt.Errorf("egress to %s refused", resolved))
}

// stall is the time without progress, within a response or a request, after which a
// connection fails.
const stall = 60 * time.Second

// A stallConn fails if its peer neither sends nor receives data. While a request is being
// sent, which may take minutes for a large layer, the peer need not send anything.
type stallConn struct {
	net.Conn
	received atomic.Int64 // bytes that were read
}

func (c *stallConn) Write(p []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(stall)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

func (c *stallConn) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(stall)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(p)
	c.received.Add(int64(n))
	return n, err
}
