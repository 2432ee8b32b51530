package app

import (
	"net"
	"strings"

	"slipway.dev/services/internal/config"
)

// private returns the addresses (host:port) on which this service listens, and those of the
// servers that it uses. A build step must not reach any of them on this machine, even if
// egress_allow contains the loopback.
func private(c config.Config) []string {
	out := []string{c.HTTPAddr, c.PlatformHTTPAddr, c.AdminAddr, c.GRPCAddr, c.StoreAddr}
	for _, r := range roles() {
		out = append(out, strings.TrimPrefix(r.at(c), "dns:///"))
	}
	servers := append([]string{c.DatabaseURL, c.NATSURL, c.RedisURL}, c.BuildkitAddr...)
	if strings.Contains(c.AuditSink, "://") { // otherwise it has no address
		servers = append(servers, c.AuditSink)
	}
	for _, urls := range servers {
		out = append(out, serversOf(urls)...)
	}
	return out
}

// serversOf returns the addresses (host:port) in a comma-separated list of servers. Each is a
// URL, or a host after a URL, whose scheme it then has.
func serversOf(urls string) []string {
	scheme := ""
	var out []string
	for rest := range strings.SplitSeq(urls, ",") {
		if before, after, ok := strings.Cut(rest, "://"); ok {
			scheme, rest = before, after
		}
		if end := strings.IndexAny(rest, "/?#"); end >= 0 {
			rest = rest[:end]
		}
		host := rest[strings.LastIndexByte(rest, '@')+1:]
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), defaultPort(scheme))
		}
		out = append(out, host)
	}
	return out
}

// defaultPort returns the default port of a URL's scheme.
func defaultPort(scheme string) string {
	switch {
	case strings.HasPrefix(scheme, "postgres"):
		return "5432"
	case strings.HasPrefix(scheme, "redis"):
		return "6379"
	case strings.HasPrefix(scheme, "nats"), scheme == "tls":
		return "4222"
	}
	return "0" // nothing listens there
}
