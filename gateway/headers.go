package gateway

import (
	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
)

// noHeader forwards no header in either direction: neither Grpc-Metadata-* from clients nor
// metadata to clients. Authorization is forwarded separately.
func noHeader(string) (string, bool) { return "", false }

// newMux returns a mux with the options in own and the options that both APIs share.
func newMux(own ...runtime.ServeMuxOption) *runtime.ServeMux {
	return runtime.NewServeMux(append(own,
		runtime.WithIncomingHeaderMatcher(noHeader),
		runtime.WithOutgoingHeaderMatcher(noHeader),
		runtime.WithOutgoingTrailerMatcher(noHeader),
		runtime.WithDisablePathLengthFallback(),
	)...)
}
