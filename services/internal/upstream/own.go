package upstream

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"slipway.dev/services/internal/fault"
)

// Except returns the same rules for the steps of builds: they never reach this
// machine at the ports of these addresses (host:port), whatever else is allowed.
// What listens there is the service itself, or trusts whoever gets there.
func (e *Egress) Except(listeners []string) *Egress {
	out := *e
	out.own = slices.Clone(e.own)
	for _, l := range listeners {
		// The host does not matter: a machine has many addresses and names.
		if _, port, err := net.SplitHostPort(l); err == nil && port != "0" {
			out.own = append(out.own, port)
		}
	}
	return &out
}

// checkOwn refuses an address of this machine at which the service listens.
func (e *Egress) checkOwn(resolved string) error {
	_, port, err := net.SplitHostPort(resolved)
	if err != nil || !slices.Contains(e.own, port) {
		return nil //nolint:nilerr // what is no address is not ours
	}
	ap, err := netip.ParseAddrPort(resolved)
	if err == nil && !isOurs(ap.Addr()) {
		return nil
	}
	return fault.Invalid.New("the build service itself listens at port "+port+", which steps may not reach", fmt.Errorf("egress to %s refused", resolved))
}

// isOurs says whether an address is one of this machine's.
func isOurs(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	if inner, ok := translated(ip); ok && isOurs(inner) {
		return true
	}
	// The system takes 0.0.0.0 for the loopback.
	if ip.IsLoopback() || ip.IsUnspecified() {
		return true
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return true // better refused once too often
	}
	for _, a := range all {
		text, _, _ := strings.Cut(a.String(), "/")
		if own, err := netip.ParseAddr(text); err == nil && own.Unmap().WithZone("") == ip {
			return true
		}
	}
	return false
}
