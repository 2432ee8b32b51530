package gateway

import (
	"context"
	"fmt"
	"net/http"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"slipway.dev/proto/gen/openapi"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
)

// MaxPlatformBody is the largest request body of the platform, in bytes.
const MaxPlatformBody = 16_000_000

// NewPlatform returns the handler of the platform's REST API, with its paths at the
// root: the legacy base address is the same handler behind http.StripPrefix("/api",
// …). The request id that errors show is the X-Request-Id of the response, which the
// caller's middleware sets. Truth: gateway/contract/platform.md#conventions.
func NewPlatform(ctx context.Context, room grpc.ClientConnInterface) (http.Handler, error) {
	mux, err := routePlatform(ctx, room)
	if err != nil {
		return nil, err
	}
	return withReference(platformEdge(mux), openapi.Platform, openapi.PlatformYAML)
}

// routePlatform mounts every path of the platform.
func routePlatform(ctx context.Context, room grpc.ClientConnInterface) (*runtime.ServeMux, error) {
	readable := requestsOf(platformv1.File_slipway_platform_v1_platform_proto)
	mux := newMux(
		runtime.WithMiddlewares(routed("/api", defaultTimeouts()), readable.checked(refuseParameter), readable.located(refuseParameter)),
		runtime.WithMarshalerOption(runtime.MIMEWildcard, newPlatformMarshaler()),
		runtime.WithErrorHandler(writePlatformError),
		runtime.WithRoutingErrorHandler(writeNoEndpoint),
		runtime.WithForwardResponseOption(setNoContent),
	)
	client := platformv1.NewPlatformServiceClient(room)
	if err := platformv1.RegisterPlatformServiceHandlerClient(ctx, mux, client); err != nil {
		return nil, fmt.Errorf("mounting the platform: %w", err)
	}
	if err := (signIn{mux: mux, room: client}).mount(); err != nil {
		return nil, fmt.Errorf("mounting the sign-in: %w", err)
	}
	return mux, nil
}

// platformEdge sets what holds for every request: its version, its size, and what is
// not forwarded.
func platformEdge(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if problem := checkVersion(r.Header); problem != "" {
			writeMessage(w, http.StatusBadRequest, identified(problem, w.Header()))
			return
		}
		if !isText(r.URL) {
			writeMessage(w, http.StatusBadRequest, identified(noText, w.Header()))
			return
		}
		if r.ContentLength > MaxPlatformBody {
			writeMessage(w, http.StatusRequestEntityTooLarge, platformTooLarge)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, MaxPlatformBody)
		r.Header.Del("Grpc-Timeout")
		w.Header().Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// checkVersion says what is wrong with the version that a client accepts.
func checkVersion(h http.Header) string {
	if v := h.Values("Accept-Version"); len(v) > 1 || len(v) == 1 && v[0] != "1" {
		return "Accept-Version must be one of the versions that are served: 1"
	}
	return ""
}

// setNoContent writes 204 where the response has no fields.
func setNoContent(_ context.Context, w http.ResponseWriter, m proto.Message) error {
	if m.ProtoReflect().Descriptor().Fields().Len() == 0 {
		w.Header().Del("Content-Type")
		w.WriteHeader(http.StatusNoContent)
	}
	return nil
}
