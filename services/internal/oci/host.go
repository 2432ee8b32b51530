package oci

import (
	"net/netip"
	"strconv"
	"strings"
)

// SameHost says whether two registry hosts are spellings of one: case, a dot at the
// end, the port of https or http written out, the names of Docker Hub, and every
// way to write this machine itself. It is for refusing: what is refused under one
// name must be refused under all. A login is only given for a host as it is written
// where the login is kept.
func SameHost(a, b string) bool { return a == b || plainHost(a) == plainHost(b) }

// CanonicalHost is a registry as image names have it: Docker Hub, which answers under
// several names, is docker.io; any other host is itself.
func CanonicalHost(host string) string {
	switch host {
	case "index.docker.io", "registry-1.docker.io", "registry.hub.docker.com":
		return "docker.io"
	}
	return host
}

// LoginKey is what a login is kept under, "host" or "host/path", read from the forms in
// which people and docker's config.json write it: with a scheme, and with the version
// of the API behind it. It is not checked.
func LoginKey(s string) string {
	s = strings.TrimPrefix(strings.TrimPrefix(s, "https://"), "http://")
	s = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(strings.TrimRight(s, "/"), "/v1"), "/v2"), "/")
	host, path, _ := strings.Cut(s, "/")
	if path == "" {
		return CanonicalHost(host)
	}
	return CanonicalHost(host) + "/" + path
}

// LongestPrefix finds the longest key that a repository, with its host, starts with,
// by path component.
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

// plainHost is the one spelling of a host that stands for all.
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

// splitPort takes the port off a host; "" for none.
func splitPort(host string) (name, port string) {
	i := strings.LastIndexByte(host, ':')
	if i < 0 || strings.HasSuffix(host, "]") || strings.Count(host, ":") > 1 && !strings.HasPrefix(host, "[") {
		return host, ""
	}
	return host[:i], strings.TrimLeft(host[i+1:], "0")
}

// parseAddr reads an address as resolvers do, which take 127.1, 0177.0.0.1 and
// 2130706433 for IPv4 too.
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
