package upstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// checkTarget refuses a redirect that nobody should go along with: anything but
// https (or http, where the registry itself is spoken to in it), an address with a
// login in it, or one without a host.
func (c *Client) checkTarget(repo Repository, target *url.URL) error {
	host := target.Hostname()
	switch {
	case target.Scheme != "https" && (target.Scheme != "http" || !c.plain[repo.Host]):
		return fmt.Errorf("it redirects to %.20q, which is not https", target.Scheme)
	case target.User != nil:
		return errors.New("it redirects to a URL that holds a login")
	case host == "" || target.Opaque != "":
		return errors.New("it redirects to a URL without a host")
	case strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r > '~' }):
		return errors.New("it redirects to a host with characters that no host name has")
	case len(target.String()) > limits.RedirectURL:
		return fmt.Errorf("it redirects to a URL of more than %d bytes", limits.RedirectURL)
	}
	return nil
}

// passable answers where a client may be sent for a blob. The client resolves
// names by itself, so what is judged here are addresses, and names that have a
// meaning only inside a network. Fault.Denied for what is not passed on.
func (c *Client) passable(ctx context.Context, repo Repository, target *url.URL) (*url.URL, error) {
	err := c.checkTarget(repo, target)
	if err == nil {
		err = c.egress.names(ctx, target)
	}
	if err != nil {
		return nil, fault.Denied.New("The registry "+repo.Host+" redirects to an address to which this service sends no client", err)
	}
	out := *target
	out.Fragment, out.RawFragment = "", ""
	return &out, nil
}

// names holds the host of a URL against the rules, as far as that can be told
// without asking for every name.
func (e *Egress) names(ctx context.Context, target *url.URL) error {
	host := strings.TrimSuffix(strings.ToLower(target.Hostname()), ".")
	if e.hosts[host] || e.hosts[net.JoinHostPort(host, target.Port())] || e.hosts[strings.ToLower(target.Host)] {
		return nil
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		if !e.Allows(ip) {
			return fmt.Errorf("%s is not a public address", host)
		}
		return nil
	}
	last := host[strings.LastIndexByte(host, '.')+1:]
	switch {
	case isNumber(last): // 127.1, 0x7f000001: browsers and curl read these as addresses
		return fmt.Errorf("%.60q is neither a name nor an address", host)
	case last == host || slices.Contains(insideNames(), last) || strings.HasSuffix(host, ".home.arpa"):
		return e.resolves(ctx, host)
	}
	return nil
}

// insideNames are top-level names that mean something inside a network only
// (RFC 6761, RFC 6762, ICANN's reservation of internal, and what is in use).
func insideNames() []string {
	return []string{"localhost", "local", "internal", "intranet", "private", "corp", "home", "lan"}
}

// resolves asks for the addresses of a name, all of which must be allowed.
func (e *Egress) resolves(ctx context.Context, host string) error {
	r := e.Resolver
	if r == nil {
		r = net.DefaultResolver
	}
	found, err := r.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return err
	}
	for _, ip := range found {
		if !e.Allows(ip) {
			return fmt.Errorf("%.60q is at %s, which is not a public address", host, ip)
		}
	}
	return nil
}

// isNumber knows what the URL standard takes for the end of an IPv4 address.
func isNumber(label string) bool {
	digits := strings.Trim(label, "0123456789") == ""
	hex := strings.HasPrefix(label, "0x") && strings.Trim(label[2:], "0123456789abcdef") == ""
	return label != "" && (digits || hex)
}

// CheckRedirect is http.Client.CheckRedirect of clients that go along by
// themselves: few hops, never from https to http, and no login in an address. The
// address that led here may hold a token, and stays unsaid; a login is for the host that
// was asked, of which another port, or a name below it, is no part.
func CheckRedirect(req *http.Request, via []*http.Request) error {
	req.Header.Del("Referer")
	if req.URL.Host != via[0].URL.Host {
		req.Header.Del("Authorization")
	}
	switch {
	case len(via) > limits.Redirects:
		return errors.New("there are too many redirects")
	case req.URL.Scheme != "https" && via[0].URL.Scheme == "https":
		return errors.New("https does not lead to http")
	case req.URL.User != nil:
		return errors.New("it redirects to a URL that holds a login")
	}
	return nil
}
