package gateway

import (
	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
)

// noHeader forwards no header in either direction: neither Grpc-Metadata-* from clients nor
// metadata to clients. Authorization is forwarded separately.
func noHeader(string) (string, bool) { return "", false }

// newMux returns a mux with its own options and those of both APIs.
func newMux(own ...runtime.ServeMuxOption) *runtime.ServeMux {
	return runtime.NewServeMux(append(own,
		runtime.WithIncomingHeaderMatcher(noHeader),
		runtime.WithOutgoingHeaderMatcher(noHeader),
		runtime.WithOutgoingTrailerMatcher(noHeader),
		runtime.WithDisablePathLengthFallback(),
	)...)
}
