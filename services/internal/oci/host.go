package oci

import (
	"net/netip"
	"strconv"
	"strings"
)

// SameHost reports whether two registry hosts are spellings of the same host. It ignores
// case, a trailing dot, and the ports of http and https, and unifies the names of Docker
// Hub and all addresses of this machine. It is for denying access: a host that is denied
// must be denied in all spellings. Logins, in contrast, are only used for the configured
// spelling.
func SameHost(a, b string) bool { return a == b || plainHost(a) == plainHost(b) }

// CanonicalHost returns the host of a registry as in image names: docker.io for all names
// of Docker Hub. Other hosts are returned unchanged.
func CanonicalHost(host string) string {
	switch host {
	case "index.docker.io", "registry-1.docker.io", "registry.hub.docker.com":
		return "docker.io"
	}
	return host
}

// LoginKey returns the key of a login, "host" or "host/path". It accepts the forms in which
// users and docker's config.json write it, with a scheme and the version of the API. It
// does not validate s.
func LoginKey(s string) string {
	s = strings.TrimPrefix(strings.TrimPrefix(s, "https://"), "http://")
	s = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(strings.TrimRight(s, "/"), "/v1"), "/v2"), "/")
	host, path, _ := strings.Cut(s, "/")
	if path == "" {
		return CanonicalHost(host)
	}
	return CanonicalHost(host) + "/" + path
}

// LongestPrefix returns the entry with the longest key that is a prefix of a repository
// (with host), by path components.
func LongestPrefix[T any](repository string, of map[string]T) (key string, v T, ok bool) {
	for key = repository; ; {
		if v, ok = of[key]; ok {
			return key, v, true
		}
		i := strings.LastIndexByte(key, '/')
		if i < 0 {
			return "", v, false
		}
		key = key[:i]
	}
}

// plainHost returns the normal form of a host, with a port or ":".
func plainHost(host string) string {
	name, port := splitPort(strings.ToLower(host))
	if port == "443" || port == "80" {
		port = ""
	}
	name = CanonicalHost(strings.TrimSuffix(strings.Trim(name, "[]"), "."))
	if ip, ok := parseAddr(name); ok {
		name = ip.String()
		if ip.IsLoopback() || ip.IsUnspecified() {
			name = "localhost"
		}
	}
	if strings.HasSuffix(name, ".localhost") { // RFC 6761
		name = "localhost"
	}
	return name + ":" + port
}

// splitPort splits a host into its name and port; the port may be "".
func splitPort(host string) (name, port string) {
	i := strings.LastIndexByte(host, ':')
	if i < 0 || strings.HasSuffix(host, "]") || strings.Count(host, ":") > 1 && !strings.HasPrefix(host, "[") {
		return host, ""
	}
	return host[:i], strings.TrimLeft(host[i+1:], "0")
}

// parseAddr parses an address like resolvers, which also accept 127.1, 0177.0.0.1 and
// 2130706433 as IPv4 addresses.
func parseAddr(s string) (netip.Addr, bool) {
	if ip, err := netip.ParseAddr(s); err == nil {
		return ip.Unmap().WithZone(""), true
	}
	parts := strings.Split(s, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var v uint64
	for i, p := range parts {
		bits := 8
		if i == len(parts)-1 {
			bits = 8 * (5 - len(parts))
		}
		n, err := strconv.ParseUint(p, 0, bits)
		if err != nil {
			return netip.Addr{}, false
		}
		v = v<<bits | n
	}
	return netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)}), true
}
