package run

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/opencontainers/go-digest"
	"github.com/regclient/regclient"
	"github.com/regclient/regclient/scheme/reg"
	"github.com/regclient/regclient/types/descriptor"
	"github.com/regclient/regclient/types/errs"
	"github.com/regclient/regclient/types/ref"

	"slipway.dev/services/cmd/slipway/internal/bundle"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/mount/cache"
)

// A registry reads an image and its environment, with the logins of docker.
type registry struct {
	client *regclient.RegClient
	at     ref.Ref
	// ignored is called once if the registry ignores ranges, so that more is transferred than needed.
	ignored func()
}

// A connection is how a registry is connected to.
type connection struct {
	Version string
	Server  string   // the URL of the server, whose registry has the same scheme; "" for none
	Plain   []string // the registries that use plain HTTP
}

// newRegistry returns a client of the registry, or the folder with an OCI layout, that has an image.
func newRegistry(image string, c connection) (*registry, error) {
	at, err := ref.New(image)
	if err != nil {
		return nil, fmt.Errorf("%.200q is not the name of an image: %w", image, err)
	}
	var server *url.URL
	if c.Server != "" {
		if server, err = url.Parse(c.Server); err != nil {
			return nil, fmt.Errorf("the address of the server: %w", err)
		}
	}
	transport, err := newTransport(at.Registry)
	if err != nil {
		return nil, err
	}
	web := &http.Client{Transport: &ranges{transport}}
	return &registry{
		at:     at,
		client: bundle.NewClient(c.Version, server, at.Registry, c.Plain, regclient.WithRegOpts(reg.WithHTTPClient(web))),
		ignored: sync.OnceFunc(func() {
			fmt.Fprintf(os.Stderr, "slipway: the registry %s ignores ranges: more is transferred than needed\n", at.Registry)
		}),
	}, nil
}

// certificates is the folder of the authorities that Docker and this program trust for single registries.
const certificates = "/etc/docker/certs.d"

// newTransport returns a transport that trusts the authorities of a registry. The client of registries only adds them to a transport
// that is not wrapped.
func newTransport(registry string) (*http.Transport, error) {
	base, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return nil, errors.New("the transport of this program was replaced")
	}
	t := base.Clone()
	t.MaxIdleConnsPerHost = 8
	t.ResponseHeaderTimeout = limits.MountResponse
	files, err := filepath.Glob(filepath.Join(certificates, strings.NewReplacer("*", "", "?", "", "[", "", `\`, "").Replace(registry), "*.crt"))
	if err != nil || len(files) == 0 {
		return t, err
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("reading the certificates of the system: %w", err)
	}
	for _, file := range files {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading the certificate of %s: %w", registry, err)
		}
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("the file %s has no certificate", file)
		}
	}
	t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	return t, nil
}

// A span is a range that is requested with the context of a request, and its bytes.
type span struct {
	from, to int64
	bytes    []byte
	done     bool
	ignored  bool
}

type spanKey struct{}

// ranges is a transport that requests the span of the context. The client of registries has no ranges: for it, the response
// is empty, and the bytes are in the span.
type ranges struct{ http.RoundTripper }

func (t *ranges) RoundTrip(r *http.Request) (*http.Response, error) {
	s, ok := r.Context().Value(spanKey{}).(*span)
	if !ok || r.Method != http.MethodGet || !isBlob(r) {
		return t.RoundTripper.RoundTrip(r)
	}
	r = r.Clone(r.Context())
	r.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", s.from, s.to-1))
	res, err := t.RoundTripper.RoundTrip(r)
	if err != nil || res.StatusCode != http.StatusOK && res.StatusCode != http.StatusPartialContent {
		return res, err
	}
	if err := s.read(res); err != nil {
		return nil, errors.Join(err, res.Body.Close())
	}
	_ = res.Body.Close()
	res.StatusCode, res.Status, res.Body, res.ContentLength = http.StatusOK, "200 OK", http.NoBody, 0
	res.Header.Del("Content-Length")
	res.Header.Del("Content-Range")
	return res, nil
}

// isBlob reports whether a request, or the first request of its redirects, is for a blob, and not for a token.
func isBlob(r *http.Request) bool {
	for r.Response != nil && r.Response.Request != nil {
		r = r.Response.Request
	}
	return strings.Contains(r.URL.Path, "/blobs/sha256:")
}

// read reads the bytes of the span from a response.
func (s *span) read(res *http.Response) error {
	if res.StatusCode == http.StatusOK { // the registry ignores ranges
		s.ignored = true
		if _, err := io.CopyN(io.Discard, res.Body, s.from); err != nil {
			return fmt.Errorf("skipping %d bytes: %w", s.from, err)
		}
	} else if !strings.HasPrefix(res.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-%d/", s.from, s.to-1)) {
		return fmt.Errorf("the registry returned the range %q instead of %d-%d", res.Header.Get("Content-Range"), s.from, s.to-1)
	}
	s.bytes = make([]byte, s.to-s.from)
	n, err := io.ReadFull(res.Body, s.bytes)
	s.bytes = s.bytes[:n]
	if err != nil {
		return fmt.Errorf("reading %d bytes: %w", s.to-s.from, err)
	}
	s.done = true
	return nil
}

// Range returns a part of a blob.
func (r *registry) Range(ctx context.Context, d string, from, to int64) ([]byte, error) {
	if from < 0 || to <= from || to-from > limits.MountIndex {
		return nil, fmt.Errorf("%w: the range %d-%d", cache.ErrPermanent, from, to)
	}
	if r.at.Scheme == layoutScheme {
		return r.layoutRange(d, from, to)
	}
	ctx, cancel := context.WithTimeout(ctx, limits.MountRange)
	defer cancel()
	s := &span{from: from, to: to}
	want := descriptor.Descriptor{MediaType: "application/octet-stream", Digest: digest.Digest(d)}
	blob, err := r.client.BlobGet(context.WithValue(ctx, spanKey{}, s), r.at, want)
	if err != nil {
		return nil, permanent(err)
	}
	defer func() { _ = blob.Close() }()
	if s.ignored {
		r.ignored()
	}
	if !s.done {
		return nil, fmt.Errorf("the registry did not return the bytes %d to %d", from, to)
	}
	return s.bytes, nil
}

// layoutScheme is the scheme of the names of images in folders with an OCI layout.
const layoutScheme = "ocidir"

// layoutRange returns a part of a blob of an OCI layout.
func (r *registry) layoutRange(d string, from, to int64) ([]byte, error) {
	if err := digest.Digest(d).Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", cache.ErrPermanent, err)
	}
	f, err := os.Open(filepath.Join(r.at.Path, "blobs", digest.Digest(d).Algorithm().String(), digest.Digest(d).Encoded()))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", cache.ErrPermanent, err)
	}
	defer func() { _ = f.Close() }()
	b := make([]byte, to-from)
	n, err := f.ReadAt(b, from)
	if err != nil {
		return b[:n], fmt.Errorf("%w: reading %s: %w", cache.ErrPermanent, f.Name(), err)
	}
	return b, nil
}

// permanent marks the errors that another attempt does not avoid.
func permanent(err error) error {
	for _, one := range []error{errs.ErrNotFound, errs.ErrHTTPUnauthorized, errs.ErrHTTPRedirectRefused} {
		if errors.Is(err, one) {
			return fmt.Errorf("%w: %w", cache.ErrPermanent, err)
		}
	}
	return err
}

// document returns a small blob, whose digest is verified.
func (r *registry) document(ctx context.Context, d descriptor.Descriptor, limit int64) ([]byte, error) {
	if d.Size <= 0 || d.Size > limit {
		return nil, fmt.Errorf("the blob %s has %d bytes, and the limit is %d", d.Digest, d.Size, limit)
	}
	blob, err := r.client.BlobGet(ctx, r.at, d)
	if err != nil {
		return nil, err
	}
	defer func() { _ = blob.Close() }()
	b, err := io.ReadAll(io.LimitReader(blob, d.Size))
	if err != nil {
		return nil, fmt.Errorf("reading the blob %s: %w", d.Digest, err)
	}
	return b, verifyDigest(b, d.Digest)
}

func verifyDigest(b []byte, want digest.Digest) error {
	if want.Algorithm() != digest.SHA256 || digest.FromBytes(b) != want {
		return fmt.Errorf("the registry returned %s instead of %s", digest.FromBytes(b), want)
	}
	return nil
}
