package gateway

import (
	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
)

// noHeader forwards no header either way: no Grpc-Metadata-* from outside, no
// metadata to the outside. Authorization goes in by itself.
func noHeader(string) (string, bool) { return "", false }

// newMux is a mux with options of its own, and those that hold for each API.
func newMux(own ...runtime.ServeMuxOption) *runtime.ServeMux {
	return runtime.NewServeMux(append(own,
		runtime.WithIncomingHeaderMatcher(noHeader),
		runtime.WithOutgoingHeaderMatcher(noHeader),
		runtime.WithOutgoingTrailerMatcher(noHeader),
		runtime.WithDisablePathLengthFallback(),
	)...)
}
