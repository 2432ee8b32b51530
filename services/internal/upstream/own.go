package upstream

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"slipway.dev/services/internal/fault"
)

// Except returns the rules for the steps of builds: like e, but connections to this machine on
// the ports of the given addresses (host:port) are always denied. The service itself listens
// there, or servers that trust local clients.
func (e *Egress) Except(listeners []string) *Egress {
	out := *e
	out.own = slices.Clone(e.own)
	for _, l := range listeners {
		// The host is ignored, because a machine has many addresses and names.
		if _, port, err := net.SplitHostPort(l); err == nil && port != "0" {
			out.own = append(out.own, port)
		}
	}
	return &out
}

// checkOwn returns an error for an address of this machine on a denied port.
func (e *Egress) checkOwn(resolved string) error {
	_, port, err := net.SplitHostPort(resolved)
	if err != nil || !slices.Contains(e.own, port) {
		return nil //nolint:nilerr // not an address
	}
	ap, err := netip.ParseAddrPort(resolved)
	if err == nil && !isLocal(ap.Addr()) {
		return nil
	}
	return fault.Invalid.New("the service itself listens at port "+port+", which is not available to its users", fmt.Errorf("egress to %s refused", resolved))
}

// isLocal reports whether an address belongs to this machine.
func isLocal(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	if inner, ok := translated(ip); ok && isLocal(inner) {
		return true
	}
	// Connections to 0.0.0.0 reach the loopback interface.
	if ip.IsLoopback() || ip.IsUnspecified() {
		return true
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return true // deny if the addresses are unknown
	}
	for _, a := range all {
		text, _, _ := strings.Cut(a.String(), "/")
		if own, err := netip.ParseAddr(text); err == nil && own.Unmap().WithZone("") == ip {
			return true
		}
	}
	return false
}
