// Package registry serves image pulls at /v2/, with the pull part of the OCI distribution
// specification v1.1 over plain HTTP. A token in the path represents an upstream image and
// the changes to it; the public id of a kept image is such a token. The registry requests the token's plan from the container service,
// fetches with the owner's login, augments, and streams. Memory and disk hold caches, which
// may be lost, and a spool of pulls that the metrics service has not counted yet. The
// package never writes to an upstream registry.
package registry

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/httprecord"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/memo"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/policy/enforce"
	"slipway.dev/services/internal/pullthrough"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/upstream"
	"slipway.dev/services/registry/blob"
)

// Deps are the registry's dependencies.
type Deps struct {
	Containers containerv1.ContainerServiceClient
	// Builds is nil if there is no build service.
	Builds   buildv1.BuildServiceClient
	Bus      *nats.Conn
	Upstream *upstream.Client
	// Reads reads the images of other registries, through Upstream. If nil, nothing is kept.
	Reads   *pullthrough.Reader
	Control *upstream.Control
	// Blobs caches their blobs. The caller runs and closes it. If nil, nothing is cached.
	Blobs    blob.Cache
	Keychain *caller.Keychain
	Limiter  *ratelimit.Limiter
	// Policy applies the rules of the operator; nil permits everything.
	Policy  *enforce.Enforcer
	Metrics prometheus.Registerer
	Log     *slog.Logger
	// Now returns the current time.
	Now func() time.Time

	Settings
}

// Settings are the registry's settings.
type Settings struct {
	// LayerDir is the folder for added layers, and LayerCache its maximum size in bytes.
	LayerDir   string
	LayerCache int64
	// ImageCache is the memory for manifests and configs, in bytes.
	ImageCache int64
	// TagFreshness is how long a resolved tag is reused; 0 resolves it for each pull.
	TagFreshness time.Duration
	// PullWait is how long a pull waits for a build.
	PullWait time.Duration
	// PublicURL is the service's own address, without a trailing slash.
	PublicURL string
	// SpoolDir is the folder for pulls that are not yet counted; "" disables counting.
	SpoolDir string
	// FilesystemPrefix is the URL prefix of file system clients' layers; "" recognises
	// none.
	FilesystemPrefix string
	// PlatformURL is the address of this platform, whose users pulls are counted for.
	PlatformURL string
}

// Registry is the handler of /v2/. Create it with New and call Close after use.
type Registry struct {
	deps    Deps
	tokens  *tokens
	images  *images
	layers  *layerCache
	blobs   blob.Cache
	streams *streams
	builds  memo.Flight[string, *buildv1.AwaitBuildResponse]
	// restores shares the running calls that rebuild lost images, by build.
	restores memo.Flight[string, string]
	scans    scans
	waiting  *fairshare.Pool // bounds pulls that wait for builds
	// buildsStopped ends with StopWaiting.
	buildsStopped context.Context //nolint:containedctx // it is a state of the registry
	stopBuilds    context.CancelFunc
	// discarded lists the builds whose images are not served any more.
	discarded *discarded
	metrics   *metrics
	counter   *counter
	kept      *keptCounter
	tracer    trace.Tracer
}

// New creates the registry and subscribes to revocations.
func New(d Deps) (*Registry, error) {
	layers, err := newLayerCache(d.Containers, d.LayerDir, d.LayerCache)
	if err != nil {
		return nil, err
	}
	if d.Blobs == nil {
		if d.Blobs, err = blob.Open(blob.Config{Metrics: d.Metrics}); err != nil {
			return nil, err
		}
	}
	counter, err := newCounter(d)
	if err != nil {
		return nil, err
	}
	tokens, err := newTokens(d)
	if err != nil {
		return nil, errors.Join(err, counter.close())
	}
	r := &Registry{
		deps: d, tokens: tokens, images: newImages(d), layers: layers, blobs: d.Blobs, streams: newStreams(), counter: counter,
		waiting:   fairshare.New(fairshare.Config{Name: "pulls that wait for builds", Capacity: limits.AllWaitingPulls, PerClient: limits.WaitingPulls}),
		discarded: &discarded{builds: d.Builds},
		kept:      &keptCounter{containers: d.Containers, pulls: map[string]int64{}},
		tracer:    otel.Tracer("slipway.dev/registry"),
	}
	r.buildsStopped, r.stopBuilds = context.WithCancel(context.Background())
	r.metrics = newMetrics(d.Metrics, r)
	return r, nil
}

// Run publishes pull counts and cleans caches until ctx ends.
func (s *Registry) Run(ctx context.Context) error {
	var all sync.WaitGroup
	all.Go(func() { s.discarded.run(ctx, s.deps.Log) })
	all.Go(func() { s.kept.run(ctx, s.deps.Log) })
	if s.counter != nil {
		s.counter.run(ctx)
	}
	<-ctx.Done()
	all.Wait()
	return nil
}

// StopWaiting ends the pulls that wait for a build with fault.Unavailable, so that their
// clients pull again. It is for a process that stops and whose builds cannot end any more.
func (s *Registry) StopWaiting() { s.stopBuilds() }

// Close ends the subscription. Run must have returned.
func (s *Registry) Close() error {
	return errors.Join(s.tokens.close(), s.counter.close())
}

// requestTimeout is the timeout of a request, except for the content of blobs.
const requestTimeout = 90 * time.Second

// ServeHTTP serves one request. The request's context carries the rpc.Call.
func (s *Registry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	s.metrics.open.Add(1)
	defer s.metrics.open.Add(-1)
	rec := &httprecord.Writer{ResponseWriter: w}
	kind, err := s.route(rec, r)
	if err != nil {
		s.fail(rec, r, kind, err)
	}
	s.metrics.observe(kind, rec, start)
}

// route serves the request and returns its kind, for the metrics.
func (s *Registry) route(w *httprecord.Writer, r *http.Request) (kind string, err error) {
	w.Header().Set("Docker-Distribution-Api-Version", "registry/2.0")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return "other", errMethod
	}
	if r.URL.Path == "/v2/" || r.URL.Path == "/v2" {
		writeJSON(w, http.StatusOK, "application/json", []byte("{}"))
		return "ping", nil
	}
	p, ok := parsePath(r.URL.Path)
	if !ok {
		return "other", errNoRoute
	}
	return p.kind, s.serve(w, r, p)
}

func (s *Registry) serve(w *httprecord.Writer, r *http.Request, p path) error {
	tok, err := s.resolved(r, p)
	if err != nil {
		return err
	}
	if tok.refused != nil {
		return tok.refused
	}
	if err := s.await(r.Context(), tok); err != nil {
		return err
	}
	if err := s.discarded.check(r.Context(), tok); err != nil {
		return err
	}
	if p.kind == kindBlob {
		return s.afterScan(r.Context(), tok, func() error { return s.blob(w, r, p, tok) })
	}
	document := func() error {
		return s.afterScan(r.Context(), tok, func() error { return s.document(w, r, p, tok) })
	}
	err = document()
	if errors.Is(err, errLost) {
		// Charge the rebuild also to HEAD requests and lists, which are not charged otherwise.
		if _, err := s.charge(r, tok.identity); err != nil {
			return err
		}
		if err := s.restore(r.Context(), tok); err != nil {
			return err
		}
		return document()
	}
	return err
}

// document serves manifests, tag lists and referrers, which are all requests except blobs.
func (s *Registry) document(w *httprecord.Writer, r *http.Request, p path, tok *resolvedToken) error {
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	r = r.WithContext(ctx)
	switch p.kind {
	case kindManifest:
		return s.manifest(w, r, p, tok)
	case kindTags:
		return s.tags(w, r, tok)
	default:
		return s.referrers(w, r, p, tok)
	}
}

// resolved returns the plan of the token in a path. It returns an error if the rest of the
// path does not match the plan.
func (s *Registry) resolved(r *http.Request, p path) (*resolvedToken, error) {
	tok, err := s.tokens.get(r.Context(), p.token)
	if err == nil && tok.name != p.name {
		err = unknownName(nil)
	}
	if e, ok := fault.As(err); ok && e.Kind == fault.NotFound {
		// Guessing tokens uses up the client's pulls.
		if _, limit := s.charge(r, caller.ID{}); limit != nil {
			return nil, limit
		}
	}
	return tok, err
}

// charge charges a pull to the caller, or to the client's address.
func (s *Registry) charge(r *http.Request, identity caller.ID) (ratelimit.Quota, error) {
	return s.deps.Limiter.ChargeCaller(r.Context(), ratelimit.Pulls, identity.Charged(r.Context()), 1)
}

func unknownName(cause error) error {
	return coded(fault.NotFound.New("No such image, or its name has expired: make a new container request", cause), "NAME_UNKNOWN")
}

func unknownManifest(public string) error {
	return coded(fault.NotFound.Newf("%s", public), "MANIFEST_UNKNOWN")
}

// coded sets the error code of the distribution specification.
func coded(e *fault.Error, code string) *fault.Error {
	e.Meta = map[string]string{oci.MetaCode: code}
	return e
}
