// Package registry owns the pull path: /v2/ over plain HTTP, as engines speak it
// (OCI distribution specification v1.1, pull part). A token in the path stands
// for an image at somebody's registry and for what is put on top of it; the
// registry asks the container room what that is, fetches with the caller's own
// login, augments, and streams. Memory and disk hold caches, which may be lost,
// and a spool of the pulls that the metrics room has not been told of yet. It
// never writes to anybody's registry.
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

	"slipway.dev/services/internal/bucket"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/httprecord"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/memo"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/internal/upstream"
	"slipway.dev/services/registry/blob"
)

// Deps is what the registry works with.
type Deps struct {
	Containers containerv1.ContainerServiceClient
	// Builds is nil where nothing is built.
	Builds   buildv1.BuildServiceClient
	Bus      *nats.Conn
	Upstream *upstream.Client
	Control  *upstream.Control
	Keychain *caller.Keychain
	Limiter  *ratelimit.Limiter
	Metrics  prometheus.Registerer
	Log      *slog.Logger
	// Now is the clock.
	Now func() time.Time

	Settings
}

// Settings are the registry's choices.
type Settings struct {
	// PullsUser and PullsAnonymous limit image pulls.
	PullsUser, PullsAnonymous ratelimit.Limit
	// LayerDir is where added layers are kept; LayerCache its size in bytes.
	LayerDir   string
	LayerCache int64
	// BlobDir is where blobs of registries are kept, unless BlobBucket is set; "" keeps
	// none. BlobCache is the size in bytes.
	BlobDir    string
	BlobBucket *bucket.Bucket
	BlobCache  int64
	// ImageCache is the memory for manifests and configs, in bytes.
	ImageCache int64
	// TagFreshness is how old may be what a tag points at; 0 asks each time.
	TagFreshness time.Duration
	// PullWait is how long a pull waits for a build.
	PullWait time.Duration
	// PublicURL is the service's own address, without a slash at the end.
	PublicURL string
	// SpoolDir is where pulls are noted until they are counted; "" counts none.
	SpoolDir string
	// FilesystemPrefix is what the URL of a file system client's layer begins with;
	// "" tells no such layer.
	FilesystemPrefix string
}

// Registry is the handler of /v2/. Make it with New, Close it after use.
type Registry struct {
	deps    Deps
	tokens  *tokens
	images  *images
	layers  *layerCache
	blobs   blob.Cache
	streams *streams
	builds  memo.Flight[string, *buildv1.AwaitBuildResponse]
	waiting ratelimit.AtOnce // pulls that wait for builds
	metrics *metrics
	counter *counter
	tracer  trace.Tracer
}

// New makes the registry and starts to listen for revocations.
func New(d Deps) (*Registry, error) {
	layers, err := newLayerCache(d.Containers, d.LayerDir, d.LayerCache)
	if err != nil {
		return nil, err
	}
	blobs, err := blob.Open(blob.Config{Bucket: d.BlobBucket, Dir: d.BlobDir, Size: d.BlobCache, Metrics: d.Metrics, Log: d.Log, Now: d.Now})
	if err != nil {
		return nil, err
	}
	counter, err := newCounter(d)
	if err != nil {
		return nil, errors.Join(err, blobs.Close())
	}
	tokens, err := newTokens(d)
	if err != nil {
		return nil, errors.Join(err, blobs.Close(), counter.close())
	}
	r := &Registry{
		deps: d, tokens: tokens, images: newImages(d), layers: layers, blobs: blobs, streams: newStreams(), counter: counter,
		waiting: ratelimit.AtOnce{What: "pulls that wait for builds", Each: limits.WaitingPulls, All: limits.AllWaitingPulls},
		tracer:  otel.Tracer("slipway.dev/registry"),
	}
	r.metrics = newMetrics(d.Metrics, r)
	return r, nil
}

// Run publishes what there is to count, and tidies up what is kept, until ctx ends.
func (s *Registry) Run(ctx context.Context) error {
	var all sync.WaitGroup
	all.Go(func() { s.blobs.Run(ctx) })
	if s.counter != nil {
		s.counter.run(ctx)
	}
	<-ctx.Done()
	all.Wait()
	return nil
}

// Close stops listening. Run must have ended.
func (s *Registry) Close() error {
	return errors.Join(s.tokens.close(), s.blobs.Close(), s.counter.close())
}

// answerTime is how long anything but a blob may take.
const answerTime = 90 * time.Second

// ServeHTTP answers one request. The request's context carries the rpc.Call.
func (s *Registry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	s.metrics.open.Add(1)
	defer s.metrics.open.Add(-1)
	rec := &httprecord.Writer{ResponseWriter: w}
	kind, err := s.route(rec, r)
	if err != nil {
		s.fail(rec, r, kind, err)
	}
	s.metrics.answered(kind, rec, start)
}

// route returns what kind of request it was, for the metrics.
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
	if err := s.await(r.Context(), tok); err != nil {
		return err
	}
	if p.kind == kindBlob {
		return s.blob(w, r, p, tok)
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerTime)
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

// resolved finds what the token in a path allows; the rest of the path must fit.
func (s *Registry) resolved(r *http.Request, p path) (*resolvedToken, error) {
	tok, err := s.tokens.get(r.Context(), p.token)
	if err == nil && tok.name != p.name {
		err = unknownName(nil)
	}
	if e, ok := fault.As(err); ok && e.Kind == fault.NotFound {
		// Whoever tries out tokens uses up their pulls.
		if _, limit := s.charge(r, caller.ID{}); limit != nil {
			return nil, limit
		}
	}
	return tok, err
}

// charge counts a pull of the caller, or of the client's address.
func (s *Registry) charge(r *http.Request, who caller.ID) (ratelimit.Quota, error) {
	if !who.IsAnonymous() {
		return s.deps.Limiter.Charge(r.Context(), "pulls", "user:"+who.User(), s.deps.PullsUser, 1)
	}
	return s.deps.Limiter.Charge(r.Context(), "pulls", rpc.CallFrom(r.Context()).Client(), s.deps.PullsAnonymous, 1)
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
