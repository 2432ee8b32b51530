package oci_test

import (
	"testing"

	"slipway.dev/services/internal/oci"
)

func TestSameHost(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, a, b string
		want       bool
	}{
		{"itself", "quay.io", "quay.io", true},
		{"case", "Quay.IO:5000", "quay.io:5000", true},
		{"dot at the end", "quay.io.:5000", "quay.io:5000", true},
		{"port of https", "quay.io:443", "quay.io", true},
		{"port of http", "quay.io:80", "quay.io", true},
		{"zeros before a port", "quay.io:05000", "quay.io:5000", true},
		{"Docker Hub's address", "registry-1.docker.io", "docker.io", true},
		{"Docker Hub's old name", "index.docker.io", "docker.io", true},
		{"localhost", "localhost:5000", "127.0.0.1:5000", true},
		{"IPv6", "[::1]:5000", "127.0.0.1:5000", true},
		{"IPv4 in IPv6", "[::ffff:127.0.0.1]:5000", "127.0.0.1:5000", true},
		{"long IPv6", "[0:0:0:0:0:0:0:1]", "[::1]", true},
		{"another loopback address", "127.8.8.8:5000", "127.0.0.1:5000", true},
		{"every address", "0.0.0.0:5000", "127.0.0.1:5000", true},
		{"short", "127.1:5000", "127.0.0.1:5000", true},
		{"octal", "0177.0.0.1:5000", "127.0.0.1:5000", true},
		{"one number", "2130706433:5000", "localhost:5000", true},
		{"hex", "0x7f000001:5000", "localhost:5000", true},
		{"below localhost", "a.localhost:5000", "localhost:5000", true},
		{"another port", "quay.io:5000", "quay.io", false},
		{"another loopback port", "localhost:5001", "127.0.0.1:5000", false},
		{"another name", "quay.io.example.org", "quay.io", false},
		{"another address", "10.0.0.1:5000", "10.0.0.2:5000", false},
		{"too many numbers", "1.2.3.4.5", "1.2.3.4", false},
		{"nothing", "", "quay.io", false},
	} {
		if got := oci.SameHost(tc.a, tc.b); got != tc.want || oci.SameHost(tc.b, tc.a) != tc.want {
			t.Errorf("%s: SameHost(%s, %s) is %t", tc.name, tc.a, tc.b, got)
		}
	}
}

func FuzzSameHost(f *testing.F) {
	for _, s := range []string{"quay.io", "[::1]:5000", "127.1:80", "0x7f000001", "a.localhost.", "::", ":", "[", "docker.io:443"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, host string) {
		if !oci.SameHost(host, host) || oci.SameHost(host, "registry.example.org:1") != oci.SameHost("registry.example.org:1", host) {
			t.Errorf("%q", host)
		}
	})
}
