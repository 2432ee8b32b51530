package gateway

import (
	"net/http"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
)

// explicitLock serves a build's lock as a list of URLs, at the path that clients expect.
func explicitLock(mux *runtime.ServeMux, service buildv1.BuildServiceClient) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, path map[string]string) {
		_, out := runtime.MarshalerForRequest(mux, r)
		ctx, err := runtime.AnnotateContext(r.Context(), mux, r, buildv1.BuildService_GetBuildLock_FullMethodName)
		if err != nil {
			writeError(r.Context(), mux, out, w, r, err)
			return
		}
		lock, err := service.GetBuildLock(ctx, &buildv1.GetBuildLockRequest{BuildId: path["build_id"], Format: "explicit"})
		if err != nil {
			writeError(ctx, mux, out, w, r, err)
			return
		}
		runtime.ForwardResponseMessage(ctx, mux, out, w, r, lock, mux.GetForwardResponseOptions()...)
	}
}
