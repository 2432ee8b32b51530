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

// Egress decides which addresses this service connects to on somebody's behalf:
// public ones, and those that configuration allows. The check is made when the
// connection is, on the address itself, so that neither a redirect nor a name
// that changes its mind passes it by. Safe for concurrent use.
type Egress struct {
	networks []netip.Prefix
	hosts    map[string]bool
	own      []string // ports of this machine that are never reached
	// Resolver finds addresses; nil is the machine's own.
	Resolver *net.Resolver
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
			return nil, fmt.Errorf("egress_allow: %q is not an address, network, or host name", a)
		}
		e.hosts[strings.ToLower(a)] = true
	}
	return e, nil
}

// Allows says whether an address may be reached. An IPv6 address that a
// translator or tunnel turns into an IPv4 address is judged by that one as well.
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

// DialContext connects to host:port if that is allowed; fault.Invalid if not.
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

// stall is how long a peer may be silent in the middle of a response, or take nothing
// in the middle of a request.
const stall = 60 * time.Second

// patientConn gives up on a peer that stops talking and listening. While a request is
// sent, which takes minutes for a large layer, it need not talk.
type patientConn struct {
	net.Conn
	taken atomic.Int64 // bytes that were read
}

func (c *patientConn) Write(p []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(stall)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

func (c *patientConn) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(stall)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(p)
	c.taken.Add(int64(n))
	return n, err
}
