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

// checkTarget returns an error for a redirect that must not be followed: to a URL that is
// not https (or http for a plain registry), contains a login, or has no host.
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

// passable returns the URL to which clients may be redirected for a blob. Clients resolve
// names themselves, so that only addresses and names with a local meaning are checked. It
// returns fault.Denied if clients must not be redirected.
func (c *Client) passable(ctx context.Context, repo Repository, target *url.URL) (*url.URL, error) {
	err := c.checkTarget(repo, target)
	if err == nil {
		err = c.egress.checkHost(ctx, target)
	}
	if err != nil {
		return nil, fault.Denied.New("The registry "+repo.Host+" redirects to an address to which this service does not redirect clients", err)
	}
	out := *target
	out.Fragment, out.RawFragment = "", ""
	return &out, nil
}

// checkHost checks the host of a URL against the rules without resolving public names.
func (e *Egress) checkHost(ctx context.Context, target *url.URL) error {
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
		return e.checkResolved(ctx, host)
	}
	return nil
}

// insideNames returns top-level names that are only used inside of networks (RFC 6761, RFC
// 6762, ICANN's reservation of internal, and common practice).
func insideNames() []string {
	return []string{"localhost", "local", "internal", "intranet", "private", "corp", "home", "lan"}
}

// checkResolved resolves a name and returns an error unless all of its addresses are allowed.
func (e *Egress) checkResolved(ctx context.Context, host string) error {
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

// isNumber reports whether the URL standard treats a label as the end of an IPv4 address.
func isNumber(label string) bool {
	digits := strings.Trim(label, "0123456789") == ""
	hex := strings.HasPrefix(label, "0x") && strings.Trim(label[2:], "0123456789abcdef") == ""
	return label != "" && (digits || hex)
}

// CheckRedirect is an http.Client.CheckRedirect function. It limits the number of
// redirects, rejects redirects from https to http and to URLs with a login, and removes the
// Referer header, which may contain a token. It removes the Authorization header for other
// hosts. Another port and subdomains count as other hosts.
func CheckRedirect(req *http.Request, via []*http.Request) error {
	req.Header.Del("Referer")
	if req.URL.Host != via[0].URL.Host {
		req.Header.Del("Authorization")
	}
	switch {
	case len(via) > limits.Redirects:
		return errors.New("there are too many redirects")
	case req.URL.Scheme != "https" && via[0].URL.Scheme == "https":
		return errors.New("https must not redirect to http")
	case req.URL.Scheme != "https" && req.URL.Scheme != "http":
		return errors.New("it redirects to a URL that is not http(s)")
	case req.URL.User != nil:
		return errors.New("it redirects to a URL that holds a login")
	}
	return nil
}
