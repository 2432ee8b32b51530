package gateway

import (
	"io"
	"net/http"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
)

// signingKeys serves the public keys that verify signatures of images, as a file for cosign.
func signingKeys(mux *runtime.ServeMux, service containerv1.ContainerServiceClient) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, _ map[string]string) {
		_, out := runtime.MarshalerForRequest(mux, r)
		ctx, err := runtime.AnnotateContext(r.Context(), mux, r, containerv1.ContainerService_GetSigningKeys_FullMethodName)
		if err != nil {
			writeError(r.Context(), mux, out, w, r, err)
			return
		}
		keys, err := service.GetSigningKeys(ctx, &containerv1.GetSigningKeysRequest{})
		if err != nil {
			writeError(ctx, mux, out, w, r, err)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, keys.GetPem()) // the client may have disconnected
	}
}
