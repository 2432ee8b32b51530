package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"slipway.dev/proto/gen/openapi"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
	usagev1 "slipway.dev/proto/gen/slipway/usage/v1"
)

// MaxPlatformBody is the largest request body of the platform, in bytes.
const MaxPlatformBody = 16_000_000

// NewPlatform returns the handler of the platform's REST API with its paths at the root. metrics
// serves the reports of usage; if it is nil, their paths do not exist.
// The legacy base address is the same handler behind http.StripPrefix("/api", …). The
// request id in errors is the X-Request-Id of the response, which the caller's middleware
// sets. See gateway/contract/platform.md#conventions. providerName is the name of the OIDC provider for users; "" if it is
// not set.
func NewPlatform(ctx context.Context, service, metrics grpc.ClientConnInterface, providerName string) (http.Handler, error) {
	mux, err := routePlatform(ctx, service, metrics, providerName)
	if err != nil {
		return nil, err
	}
	return withReference(platformEdge(mux), openapi.Platform, openapi.PlatformYAML), nil
}

// routePlatform mounts every path of the platform.
func routePlatform(ctx context.Context, service, metrics grpc.ClientConnInterface, providerName string) (*runtime.ServeMux, error) {
	readable := requestsOf(
		platformv1.File_slipway_platform_v1_identity_proto, platformv1.File_slipway_platform_v1_organization_proto,
		platformv1.File_slipway_platform_v1_credentials_proto, platformv1.File_slipway_platform_v1_run_proto, platformv1.File_slipway_platform_v1_audit_proto,
		platformv1.File_slipway_platform_v1_webhook_proto,
		platformv1.File_slipway_platform_v1_limit_proto,
		platformv1.File_slipway_platform_v1_vex_proto,
		usagev1.File_slipway_usage_v1_usage_proto,
	)
	client := platformv1.NewIdentityServiceClient(service)
	bodies := bodyReader{calls: readable, limit: MaxPlatformBody, authenticate: userOf(client), refuse: writePlatformError}
	mux := newMux(
		runtime.WithMiddlewares(routed("/api", defaultTimeouts()), readable.checked(refuseParameter), bodies.middleware, readable.located(refuseParameter), wholeBody(refuseParameter)),
		runtime.WithMarshalerOption(runtime.MIMEWildcard, newPlatformMarshaler()),
		runtime.WithErrorHandler(writePlatformError),
		runtime.WithRoutingErrorHandler(writeNoEndpoint),
		runtime.WithForwardResponseOption(setNoContent),
	)
	if err := errors.Join(
		platformv1.RegisterIdentityServiceHandlerClient(ctx, mux, client),
		platformv1.RegisterOrganizationServiceHandlerClient(ctx, mux, platformv1.NewOrganizationServiceClient(service)),
		platformv1.RegisterCredentialServiceHandlerClient(ctx, mux, platformv1.NewCredentialServiceClient(service)),
		platformv1.RegisterRunServiceHandlerClient(ctx, mux, platformv1.NewRunServiceClient(service)),
		platformv1.RegisterAuditServiceHandlerClient(ctx, mux, platformv1.NewAuditServiceClient(service)),
		platformv1.RegisterWebhookServiceHandlerClient(ctx, mux, platformv1.NewWebhookServiceClient(service)),
		platformv1.RegisterLimitServiceHandlerClient(ctx, mux, platformv1.NewLimitServiceClient(service)),
		platformv1.RegisterVexServiceHandlerClient(ctx, mux, platformv1.NewVexServiceClient(service)),
	); err != nil {
		return nil, fmt.Errorf("mounting the platform: %w", err)
	}
	if metrics != nil {
		if err := usagev1.RegisterUsageServiceHandlerClient(ctx, mux, usagev1.NewUsageServiceClient(metrics)); err != nil {
			return nil, fmt.Errorf("mounting the reports of usage: %w", err)
		}
	}
	if err := (signIn{mux: mux, service: client, name: cmp.Or(providerName, organisationsAccount)}).mount(); err != nil {
		return nil, fmt.Errorf("mounting the sign-in: %w", err)
	}
	return mux, nil
}

// userOf returns a function that returns the id of the user who owns a request's access
// token.
func userOf(service platformv1.IdentityServiceClient) func(*http.Request) (string, error) {
	return func(r *http.Request) (string, error) {
		ctx := metadata.AppendToOutgoingContext(r.Context(), "authorization", r.Header.Get("Authorization"))
		info, err := service.GetUserInfo(ctx, &platformv1.GetUserInfoRequest{})
		return strconv.FormatFloat(info.GetUser().GetId(), 'f', 0, 64), err
	}
}

// platformEdge enforces the API version and the size limit of every request, and filters
// headers.
func platformEdge(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if problem := checkVersion(r.Header); problem != "" {
			WriteMessage(w, http.StatusBadRequest, identified(problem, w.Header()))
			return
		}
		if !isText(r.URL) {
			WriteMessage(w, http.StatusBadRequest, identified(noText, w.Header()))
			return
		}
		if r.ContentLength > MaxPlatformBody {
			WriteMessage(w, http.StatusRequestEntityTooLarge, platformTooLarge)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, MaxPlatformBody)
		r.Header.Del("Grpc-Timeout")
		w.Header().Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// checkVersion returns a message if the client accepts no supported version.
func checkVersion(h http.Header) string {
	if v := h.Values("Accept-Version"); len(v) > 1 || len(v) == 1 && v[0] != "1" && v[0] != "" {
		return "Accept-Version must be one of the versions that are served: 1"
	}
	return ""
}

// setNoContent writes 204 if the response has no fields.
func setNoContent(_ context.Context, w http.ResponseWriter, m proto.Message) error {
	if m.ProtoReflect().Descriptor().Fields().Len() == 0 {
		w.Header().Del("Content-Type")
		w.WriteHeader(http.StatusNoContent)
	}
	return nil
}
