package gateway

import (
	"context"
	"io"
	"net/http"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
)

// signingKeys serves the public keys that verify signatures of images, as a file for cosign.
func signingKeys(mux *runtime.ServeMux, service containerv1.ContainerServiceClient) runtime.HandlerFunc {
	return plainText(mux, containerv1.ContainerService_GetSigningKeys_FullMethodName, func(ctx context.Context, _ map[string]string) (string, error) {
		keys, err := service.GetSigningKeys(ctx, &containerv1.GetSigningKeysRequest{})
		return keys.GetPem(), err
	})
}

// trustedRoot serves the authorities that certify the keys of signatures, as a file for cosign.
func trustedRoot(mux *runtime.ServeMux, service containerv1.ContainerServiceClient) runtime.HandlerFunc {
	return textFile(mux, containerv1.ContainerService_GetTrustedRoot_FullMethodName, "application/json", func(ctx context.Context, _ map[string]string) (string, error) {
		root, err := service.GetTrustedRoot(ctx, &containerv1.GetTrustedRootRequest{})
		return root.GetJson(), err
	})
}

// scanLogs serves what a scan did.
func scanLogs(mux *runtime.ServeMux, service containerv1.ContainerServiceClient) runtime.HandlerFunc {
	return plainText(mux, containerv1.ContainerService_GetScanLogs_FullMethodName, func(ctx context.Context, path map[string]string) (string, error) {
		log, err := service.GetScanLogs(ctx, &containerv1.GetScanLogsRequest{ScanId: path["scan_id"]})
		return log.GetText(), err
	})
}

// plainText serves the text that a call returns.
func plainText(mux *runtime.ServeMux, method string, call func(ctx context.Context, path map[string]string) (string, error)) runtime.HandlerFunc {
	return textFile(mux, method, "text/plain; charset=utf-8", call)
}

// textFile serves what a call returns, with a media type.
func textFile(mux *runtime.ServeMux, method, kind string, call func(ctx context.Context, path map[string]string) (string, error)) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, path map[string]string) {
		_, out := runtime.MarshalerForRequest(mux, r)
		ctx, err := runtime.AnnotateContext(r.Context(), mux, r, method)
		if err != nil {
			writeError(r.Context(), mux, out, w, r, err)
			return
		}
		text, err := call(ctx, path)
		if err != nil {
			writeError(ctx, mux, out, w, r, err)
			return
		}
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, text) // the client may have disconnected
	}
}
