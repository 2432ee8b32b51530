package gateway

import "net/http"

// noHeader forwards no header either way: no Grpc-Metadata-* from outside, no
// metadata to the outside. Authorization goes in by itself.
func noHeader(string) (string, bool) { return "", false }

// successor is the path that replaces the deprecated one.
const successor = "/v1alpha2/container"

// setDeprecation marks the answers of a deprecated path (RFC 9745).
func setDeprecation(h http.Header, r *http.Request) {
	if r.URL.Path == "/container-token" {
		h.Set("Deprecation", "true")
		h.Set("Link", "<"+successor+`>; rel="successor-version"`)
	}
}
