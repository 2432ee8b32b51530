package gateway

import (
	"net/http"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
)

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

// newMux is a mux with options of its own, and those that hold for every face.
func newMux(own ...runtime.ServeMuxOption) *runtime.ServeMux {
	return runtime.NewServeMux(append(own,
		runtime.WithIncomingHeaderMatcher(noHeader),
		runtime.WithOutgoingHeaderMatcher(noHeader),
		runtime.WithOutgoingTrailerMatcher(noHeader),
		runtime.WithDisablePathLengthFallback(),
	)...)
}
