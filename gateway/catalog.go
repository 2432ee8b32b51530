package gateway

import (
	"cmp"
	"context"
	"net/http"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
)

// catalogLock serves the packages of an image of the catalog as a lock file.
func catalogLock(mux *runtime.ServeMux, service containerv1.ContainerServiceClient) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, path map[string]string) {
		plainText(mux, containerv1.ContainerService_GetCatalogLock_FullMethodName, func(ctx context.Context, path map[string]string) (string, error) {
			lock, err := service.GetCatalogLock(ctx, &containerv1.GetCatalogLockRequest{Id: path["id"], Format: cmp.Or(r.URL.Query().Get("format"), "explicit")})
			return lock.GetText(), err
		})(w, r, path)
	}
}

// citation serves how to cite an image of the catalog.
func citation(mux *runtime.ServeMux, service containerv1.ContainerServiceClient) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, path map[string]string) {
		format, kind := cmp.Or(r.URL.Query().Get("format"), "bibtex"), "text/plain; charset=utf-8"
		if format == "ro-crate" {
			kind = "application/ld+json"
		}
		textFile(mux, containerv1.ContainerService_GetCitation_FullMethodName, kind, func(ctx context.Context, path map[string]string) (string, error) {
			out, err := service.GetCitation(ctx, &containerv1.GetCitationRequest{Id: path["id"], Format: format})
			return out.GetText(), err
		})(w, r, path)
	}
}
