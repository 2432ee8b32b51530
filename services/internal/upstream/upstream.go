// Package upstream reads from other registries, as specified by the OCI distribution
// specification v1.1. Requests use the login of a caller (Access) and are restricted to
// allowed addresses (Egress). Client serves the pull path and streams blobs. Control serves
// the control path with regclient. The package stores no content.
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

// A Repository is a repository of a registry.
type Repository struct {
	// Host is the registry's host as in image names, e.g. "docker.io".
	Host string
	// Name is the path, e.g. "library/ubuntu".
	Name string
}

// A Login is a user name and password. The zero value means no login.
type Login struct{ Username, Password string }

// LogValue implements slog.LogValuer. It hides the login.
func (l Login) LogValue() slog.Value { return slog.StringValue("[redacted]") }

// An Access is the identity and login that a request uses. Data that was fetched with one
// Access is never returned for another. The zero value is anonymous.
type Access struct {
	// Scope identifies the caller, or is "" for an anonymous one.
	Scope string
	Login Login
	// Service reports whether Login is one of the operator's, which everyone who can reach the
	// service may read with.
	Service bool
	// Withheld is the reason, as a clause, why an existing login is not used, or "".
	Withheld string
}

// Explain adds Withheld to the message of a fault that a registry caused by denying access.
func (a Access) Explain(err error) error {
	e, ok := fault.As(err)
	if a.Withheld == "" || !ok || e.Kind != fault.Unauthenticated && e.Kind != fault.Denied {
		return err
	}
	explained := *e
	explained.Public += "; " + a.Withheld
	return &explained
}

// Options are the options of a Client.
type Options struct {
	Egress *Egress
	// Plain are the registries (host:port) that use http.
	Plain []string
	// Mirrors are tried first for reading.
	Mirrors []Mirror
	// Metrics is where the client registers its metrics.
	Metrics prometheus.Registerer
	// Known are registries with their own label in metrics, in addition to Plain and some
	// public registries.
	Known []string
	// Documents is the memory budget of documents. If nil, the client has its own.
	Documents *Documents
}

// A Client is the client of the pull path. It is safe for concurrent use.
type Client struct {
	http    *http.Client
	egress  *Egress
	plain   map[string]bool
	docs    *Documents
	auth    *authorizer
	metrics metrics
	tracer  trace.Tracer
}

// NewTransport returns a transport for connections to external servers.
func NewTransport(e *Egress) *http.Transport {
	return &http.Transport{
		DialContext:           e.DialContext,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: 30 * time.Second,
		IdleConnTimeout:       stall,
		MaxIdleConns:          512,
		MaxIdleConnsPerHost:   128,
		DisableCompression:    true, // digests are those of the stored bytes
		// Headers of external servers are in memory before they can be checked.
		MaxResponseHeaderBytes: limits.AnswerHeader,
		WriteBufferSize:        4 << 10,
		ReadBufferSize:         8 << 10, // large reads bypass it, and a thousand streams share little memory
	}
}

// New returns a Client.
func New(o Options) *Client {
	docs := cmp.Or(o.Documents, NewDocuments())
	c := bare(o, withMirrors(o, NewTransport(o.Egress), docs), docs)
	c.metrics = newMetrics(o)
	return c
}

// bare returns a client without metrics that uses a transport.
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

// Host returns the address of a registry, which differs from its name for Docker Hub.
func Host(host string) string {
	if host == "docker.io" {
		return "registry-1.docker.io"
	}
	return host
}

// BaseURL returns the address of a registry with its scheme.
func (c *Client) BaseURL(host string) string {
	if c.plain[host] {
		return "http://" + Host(host)
	}
	return "https://" + Host(host)
}

// manifestTypes are the accepted media types.
var manifestTypes = strings.Join([]string{
	ocispec.MediaTypeImageIndex, ocispec.MediaTypeImageManifest, oci.TypeDockerIndex, oci.TypeDockerManifest,
	oci.TypeDockerSigned1 + ";q=0.1",
}, ", ")

// Resolve returns the digest of a tag, or verifies that a digest exists, usually with a
// HEAD request. It returns fault.NotFound if there is no such image.
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

// Manifest fetches and verifies a manifest or index by tag or digest.
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

// Config fetches and verifies an image config.
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

// follow requests the target of a redirect without a login.
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

// Hold starts an operation that retains the documents it reads; see Documents.Hold.
func (c *Client) Hold(ctx context.Context) (_ context.Context, done func()) { return c.docs.Hold(ctx) }

func accept(types string) http.Header { return http.Header{"Accept": {types}} }

// Source returns a source of documents in one repository, for oci.Augment.
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

// Ping verifies a login with a registry, without cached results. It returns
// fault.Unauthenticated or fault.Denied if the registry rejects it.
func (c *Client) Ping(ctx context.Context, host string, l Login) error {
	repo, a := Repository{Host: host}, Access{Scope: "ping", Login: l}
	c.auth.cache.Delete(tokenKey{repo: repo, access: a})
	resp, err := c.get(ctx, http.MethodGet, "ping", repo, "", a, nil)
	if err != nil {
		return err
	}
	drain(resp)
	c.auth.cache.Delete(tokenKey{repo: repo, access: a})
	return nil
}
