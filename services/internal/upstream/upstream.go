// Package upstream reads other people's registries: with the login that a
// caller has (Access), only at addresses that may be reached (Egress), streaming and
// coalescing on the pull path (Client), with regclient on the control path
// (Control). It keeps no content and knows nothing of tokens or plans. The truth
// is the OCI distribution specification v1.1.
package upstream

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
)

// Repository is a repository at a registry.
type Repository struct {
	// Host is the registry's host as image names have it, e.g. "docker.io".
	Host string
	// Name is the path, e.g. "library/ubuntu".
	Name string
}

// Login is a user name and password; the zero value is none.
type Login struct{ Username, Password string }

// LogValue keeps the password out of logs.
func (l Login) LogValue() slog.Value { return slog.StringValue("[redacted]") }

// Access is how a registry is asked: with which login, and in whose name. What
// one Access fetched is never shown to another. The zero value is anonymous.
type Access struct {
	// Scope tells callers apart; "" is anonymous.
	Scope string
	Login Login
	// Withheld says, as a part of a sentence, why there is no login though somebody
	// has one; "" otherwise.
	Withheld string
}

// Explain adds to a registry's refusal why nobody logged in there.
func (a Access) Explain(err error) error {
	e, ok := fault.As(err)
	if a.Withheld == "" || !ok || e.Kind != fault.Unauthenticated && e.Kind != fault.Denied {
		return err
	}
	told := *e
	told.Public += "; " + a.Withheld
	return &told
}

// Options are the settings of a Client.
type Options struct {
	Egress *Egress
	// Plain are registries (host:port) that are spoken to in http.
	Plain []string
	// Mirrors are asked first for what is read.
	Mirrors []Mirror
	// Metrics gets the client's counters.
	Metrics prometheus.Registerer
	// Known are registries that metrics tell apart, beside Plain and a few public
	// ones; all others are one.
	Known []string
	// Documents bounds the memory of documents; nil is a bound of its own.
	Documents *Documents
}

// Client is the thin client of the pull path. Safe for concurrent use.
type Client struct {
	http    *http.Client
	egress  *Egress
	plain   map[string]bool
	docs    *Documents
	auth    *authorizer
	metrics metrics
	tracer  trace.Tracer
}

// NewTransport is the transport of every connection to somebody else's server.
func NewTransport(e *Egress) *http.Transport {
	return &http.Transport{
		DialContext:           e.DialContext,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: 30 * time.Second,
		IdleConnTimeout:       stall,
		MaxIdleConns:          512,
		MaxIdleConnsPerHost:   128,
		DisableCompression:    true, // digests are of the bytes as they are stored
		// What a stranger's header may hold is in memory before anybody has seen it.
		MaxResponseHeaderBytes: limits.AnswerHeader,
		WriteBufferSize:        4 << 10,
		ReadBufferSize:         32 << 10,
	}
}

// New makes a client.
func New(o Options) *Client {
	docs := cmp.Or(o.Documents, NewDocuments())
	c := bare(o, withMirrors(o, NewTransport(o.Egress), docs), docs)
	c.metrics = newMetrics(o)
	return c
}

// bare is a client on a transport, which counts nothing.
func bare(o Options, t http.RoundTripper, docs *Documents) *Client {
	c := &Client{
		http: &http.Client{
			Transport:     t,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		egress: o.Egress,
		plain:  map[string]bool{},
		docs:   docs,
		tracer: otel.Tracer("slipway.dev/upstream"),
	}
	for _, h := range o.Plain {
		c.plain[h] = true
	}
	c.auth = newAuthorizer(c)
	return c
}

// Host is where a registry that is called host is reached: Docker Hub has
// another address than its name.
func Host(host string) string {
	if host == "docker.io" {
		return "registry-1.docker.io"
	}
	return host
}

// BaseURL is a registry's address with its scheme.
func (c *Client) BaseURL(host string) string {
	if c.plain[host] {
		return "http://" + Host(host)
	}
	return "https://" + Host(host)
}

// manifestTypes is what we can read.
var manifestTypes = strings.Join([]string{
	ocispec.MediaTypeImageIndex, ocispec.MediaTypeImageManifest, oci.TypeDockerIndex, oci.TypeDockerManifest,
	oci.TypeDockerSigned1 + ";q=0.1",
}, ", ")

// Resolve asks, with a HEAD request, what a tag points at now, or whether a
// digest is there. fault.NotFound when there is no such image.
func (c *Client) Resolve(ctx context.Context, repo Repository, ref string, a Access) (digest.Digest, error) {
	resp, err := c.get(ctx, http.MethodHead, "manifest", repo, "/manifests/"+ref, a, accept(manifestTypes))
	if err != nil {
		return "", err
	}
	drain(resp)
	if d := digest.Digest(resp.Header.Get("Docker-Content-Digest")); d.Validate() == nil {
		return d, nil
	}
	doc, err := c.Manifest(ctx, repo, ref, a)
	return doc.Digest, err
}

// Manifest fetches a manifest or index by tag or digest, and verifies it.
func (c *Client) Manifest(ctx context.Context, repo Repository, ref string, a Access) (oci.Document, error) {
	resp, err := c.get(ctx, http.MethodGet, "manifest", repo, "/manifests/"+ref, a, accept(manifestTypes))
	if err != nil {
		return oci.Document{}, err
	}
	defer drain(resp)
	raw, release, err := c.read(ctx, repo, resp)
	if err != nil {
		return oci.Document{}, err
	}
	defer release()
	want := digest.Digest(ref)
	if want.Validate() != nil {
		want = digest.Digest(resp.Header.Get("Docker-Content-Digest"))
	}
	if want.Validate() == nil && want.Algorithm().FromBytes(raw) != want {
		return oci.Document{}, wrongDigest(repo, want)
	}
	mediaType, err := oci.Classify(resp.Header.Get("Content-Type"), raw)
	if err != nil {
		return oci.Document{}, err
	}
	doc := oci.NewDocument(mediaType, raw)
	if want.Validate() == nil {
		doc.Digest = want
	}
	return doc, nil
}

// Config fetches an image config, and verifies it.
func (c *Client) Config(ctx context.Context, repo Repository, d ocispec.Descriptor, a Access) ([]byte, error) {
	resp, err := c.get(ctx, http.MethodGet, "config", repo, "/blobs/"+d.Digest.String(), a, nil)
	if err != nil {
		return nil, err
	}
	for range limits.Redirects {
		if resp.StatusCode < 300 || resp.StatusCode > 399 {
			break
		}
		target, err := resp.Location()
		drain(resp)
		if err != nil {
			return nil, unexpected(repo.Host, err)
		}
		if resp, err = c.follow(ctx, repo, target, nil); err != nil {
			return nil, err
		}
	}
	defer drain(resp)
	raw, release, err := c.read(ctx, repo, resp)
	if err != nil {
		return nil, err
	}
	defer release()
	if d.Digest.Algorithm().FromBytes(raw) != d.Digest {
		return nil, wrongDigest(repo, d.Digest)
	}
	return raw, nil
}

// follow reads what a registry redirected to; no login goes along.
func (c *Client) follow(ctx context.Context, repo Repository, target *url.URL, header http.Header) (*http.Response, error) {
	if err := c.checkTarget(repo, target); err != nil {
		return nil, unexpected(repo.Host, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, unexpected(repo.Host, err)
	}
	for k, v := range header {
		req.Header[k] = v
	}
	resp, err := c.send(req)
	if err != nil {
		return nil, unreachable(repo.Host, err)
	}
	return c.checked(repo.Host, "redirect", resp)
}

func (c *Client) read(ctx context.Context, repo Repository, resp *http.Response) (raw []byte, release func(), err error) {
	raw, release, err = c.docs.Read(ctx, resp.Body, resp.ContentLength)
	if errors.Is(err, errTooLarge) {
		return nil, nil, unexpected(repo.Host, err)
	}
	if err != nil {
		return nil, nil, unreachable(repo.Host, err)
	}
	return raw, release, nil
}

// Hold begins a piece of work that goes on with the documents it reads; see
// Documents.Hold.
func (c *Client) Hold(ctx context.Context) (_ context.Context, done func()) { return c.docs.Hold(ctx) }

func accept(types string) http.Header { return http.Header{"Accept": {types}} }

// Source reads documents of one repository, for oci.Augment.
func (c *Client) Source(repo Repository, a Access) oci.Source { return source{c, repo, a} }

type source struct {
	client *Client
	repo   Repository
	access Access
}

func (s source) Manifest(ctx context.Context, d digest.Digest) (oci.Document, error) {
	return s.client.Manifest(ctx, s.repo, d.String(), s.access)
}

func (s source) Config(ctx context.Context, d ocispec.Descriptor) ([]byte, error) {
	return s.client.Config(ctx, s.repo, d, s.access)
}

// Ping asks whether a registry accepts a login, anew each time: nil if it does,
// fault.Unauthenticated or fault.Denied if not.
func (c *Client) Ping(ctx context.Context, host string, l Login) error {
	repo, a := Repository{Host: host}, Access{Scope: "ping", Login: l}
	c.auth.known.Invalidate(tokenKey{repo, a})
	resp, err := c.get(ctx, http.MethodGet, "ping", repo, "", a, nil)
	if err != nil {
		return err
	}
	drain(resp)
	c.auth.known.Invalidate(tokenKey{repo, a})
	return nil
}
