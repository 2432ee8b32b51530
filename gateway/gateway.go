// Package gateway implements the REST contract: it translates the HTTP calls of
// gateway/contract/container-service.md to gRPC calls, and their responses to the exact
// JSON that clients expect. It imports the message types, but no service.
package gateway

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"slipway.dev/gateway/manual"
	"slipway.dev/proto/gen/openapi"
	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	condav1 "slipway.dev/proto/gen/slipway/conda/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	inspectv1 "slipway.dev/proto/gen/slipway/inspect/v1"
	metricsv1 "slipway.dev/proto/gen/slipway/metrics/v1"
)

// Conns holds the connections to the services, and what the service tells about itself. The paths of a nil
// connection return 404.
type Conns struct {
	Container grpc.ClientConnInterface
	Build     grpc.ClientConnInterface
	Conda     grpc.ClientConnInterface
	Inspect   grpc.ClientConnInterface
	Metrics   grpc.ClientConnInterface
	// Version is the version of the program, which the web page shows.
	Version string
	// Provider is the name of the OIDC provider for users; "" if it is not set.
	Provider string
	// Documents returns pages that are added to the documentation at /docs/; nil for none.
	Documents func() []manual.Document
}

// MaxBody is the largest request body in bytes.
const MaxBody = 32_000_000

// timeouts holds the timeouts and intervals of requests.
type timeouts struct {
	answer    time.Duration // of a call
	follow    time.Duration // of a followed log; clients reconnect after the last line
	silence   time.Duration // until a log without lines gets its response headers
	keepAlive time.Duration // between two keep-alives to a client
	retryFor  time.Duration // how long to retry a service that failed in the middle of a log
	stall     time.Duration // for a client to accept what was sent
}

func defaultTimeouts() timeouts {
	return timeouts{
		answer: time.Minute, follow: 6 * time.Hour,
		silence: 2 * time.Second, keepAlive: 15 * time.Second, retryFor: 30 * time.Second, stall: time.Minute,
	}
}

// New returns the handler of every REST path. The request id in errors is the X-Request-Id
// of the response, which the caller's middleware sets. When ctx ends, only the followed
// logs end: their clients reconnect to another replica.
func New(ctx context.Context, c Conns) (http.Handler, error) { return build(ctx, c, defaultTimeouts()) }

func build(ctx context.Context, c Conns, p timeouts) (http.Handler, error) {
	mux, err := route(ctx, c, p)
	if err != nil {
		return nil, err
	}
	return withWeb(withReference(edge(mux), openapi.Container, openapi.ContainerYAML), c), nil
}

// route mounts every path.
func route(ctx context.Context, c Conns, p timeouts) (*runtime.ServeMux, error) {
	readable := requestsOf(
		containerv1.File_slipway_container_v1_container_proto, buildv1.File_slipway_build_v1_build_proto, condav1.File_slipway_conda_v1_conda_proto,
		inspectv1.File_slipway_inspect_v1_inspect_proto, metricsv1.File_slipway_metrics_v1_metrics_proto,
	)
	mux := newMux(
		runtime.WithMiddlewares(routed("", p), deprecated, readable.checked(writeBadParameter), bodyReader{calls: readable, limit: MaxBody, refuse: writeError}.middleware, wholeBody(writeBadParameter)),
		runtime.WithMarshalerOption(runtime.MIMEWildcard, newMarshaler(jsonLimits{values: MaxValues, depth: MaxDepth})),
		runtime.WithErrorHandler(writeError),
		runtime.WithRoutingErrorHandler(writeRoutingError),
		runtime.WithForwardResponseOption(setStatus),
	)
	if c.Container != nil {
		if err := mountContainer(ctx, mux, containerv1.NewContainerServiceClient(c.Container), p); err != nil {
			return nil, fmt.Errorf("mounting the container service: %w", err)
		}
	}
	if c.Build != nil {
		if err := mountBuild(ctx, mux, buildv1.NewBuildServiceClient(c.Build), p); err != nil {
			return nil, fmt.Errorf("mounting the build service: %w", err)
		}
	}
	if c.Conda != nil {
		if err := condav1.RegisterCondaServiceHandlerClient(ctx, mux, condav1.NewCondaServiceClient(c.Conda)); err != nil {
			return nil, fmt.Errorf("mounting the conda service: %w", err)
		}
	}
	if c.Inspect != nil {
		if err := inspectv1.RegisterInspectServiceHandlerClient(ctx, mux, inspectv1.NewInspectServiceClient(c.Inspect)); err != nil {
			return nil, fmt.Errorf("mounting the inspect service: %w", err)
		}
	}
	if c.Metrics != nil {
		if err := metricsv1.RegisterMetricsServiceHandlerClient(ctx, mux, metricsv1.NewMetricsServiceClient(c.Metrics)); err != nil {
			return nil, fmt.Errorf("mounting the metrics service: %w", err)
		}
	}
	return mux, nil
}

// edge enforces the size limit of every request, and filters headers.
func edge(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isText(r.URL) {
			WriteMessage(w, http.StatusBadRequest, noText)
			return
		}
		if r.ContentLength > MaxBody {
			WriteMessage(w, http.StatusRequestEntityTooLarge, tooLarge)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, MaxBody)
		r.Header.Del("Grpc-Timeout")
		next.ServeHTTP(w, r)
	})
}

func mountContainer(ctx context.Context, mux *runtime.ServeMux, service containerv1.ContainerServiceClient, p timeouts) error {
	if err := containerv1.RegisterContainerServiceHandlerClient(ctx, mux, service); err != nil {
		return err
	}
	b := &batches{mux: mux, service: service, stall: p.stall, marshaler: newMarshaler(jsonLimits{values: MaxBatchValues, depth: MaxDepth, listed: MaxBatch})}
	if err := mux.HandlePath(http.MethodPost, batchPath, b.submit); err != nil {
		return err
	}
	if err := mux.HandlePath(http.MethodGet, "/.well-known/slipway/cosign.pub", signingKeys(mux, service)); err != nil {
		return err
	}
	if err := mux.HandlePath(http.MethodGet, "/.well-known/slipway/trusted-root.json", trustedRoot(mux, service)); err != nil {
		return err
	}
	if err := mux.HandlePath(http.MethodGet, "/v1alpha1/scans/{scan_id}/logs", scanLogs(mux, service)); err != nil {
		return err
	}
	if err := mux.HandlePath(http.MethodGet, "/v1alpha1/catalog/{id}/lock", catalogLock(mux, service)); err != nil {
		return err
	}
	if err := mux.HandlePath(http.MethodGet, "/v1alpha1/catalog/{id}/citation", citation(mux, service)); err != nil {
		return err
	}
	d := &downloads{mux: mux, service: service, timeouts: p}
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		if err := mux.HandlePath(method, sifPath, d.sif); err != nil {
			return err
		}
	}
	return nil
}

func mountBuild(ctx context.Context, mux *runtime.ServeMux, service buildv1.BuildServiceClient, p timeouts) error {
	if err := buildv1.RegisterBuildServiceHandlerClient(ctx, mux, service); err != nil {
		return err
	}
	l := &logs{mux: mux, service: service, timeouts: p, drained: ctx.Done()}
	for path, serve := range map[string]runtime.HandlerFunc{
		logsPath: l.text, eventsPath: l.events, mirrorLogsPath: l.text, mirrorEventsPath: l.events,
	} {
		if err := mux.HandlePath(http.MethodGet, path, serve); err != nil {
			return err
		}
	}
	return mux.HandlePath(http.MethodGet, "/v1alpha1/builds/{build_id}/condalock", explicitLock(mux, service))
}

// setStatus writes the status codes other than 200 of calls that return no error: 204 for
// RevokeContainer and DeleteCatalogImage, and 422 for an environment that cannot be solved. RevokeToken returns 200
// with an empty body.
func setStatus(_ context.Context, w http.ResponseWriter, m proto.Message) error {
	switch m := m.(type) {
	case *containerv1.RevokeContainerResponse, *containerv1.DeleteCatalogImageResponse:
		w.Header().Del("Content-Type")
		w.WriteHeader(http.StatusNoContent)
	case *condav1.LockPackagesResponse:
		if m.Message != nil {
			w.WriteHeader(http.StatusUnprocessableEntity)
		}
	}
	return nil
}
