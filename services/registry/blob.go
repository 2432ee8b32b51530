package registry

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/fault"
)

func invalidDigest(s string) error {
	if len(s) > 80 {
		s = s[:80] + "…"
	}
	return coded(fault.Invalid.Newf("%q is not a digest", s), "DIGEST_INVALID")
}

// blob serves a blob that the requested image refers to.
func (s *Registry) blob(w http.ResponseWriter, r *http.Request, p path, tok *resolvedToken) error {
	d, err := parseDigest(p.ref)
	if err != nil {
		return invalidDigest(p.ref)
	}
	src, err := s.images.reader(r.Context(), tok)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	img, err := s.find(ctx, tok, src, func(img *image) bool { _, ok := img.blob(d); return ok })
	if err != nil {
		return err
	}
	if img == nil {
		return coded(fault.NotFound.Newf("The image does not refer to the blob %s", d), "BLOB_UNKNOWN")
	}
	if _, attached := img.attachment(d); !attached {
		if err := tok.checkScan(img.key.digest); err != nil {
			return err
		}
	}
	h := w.Header()
	h.Set("Docker-Content-Digest", d.String())
	h.Set("Etag", etag(d))
	h.Set("Content-Type", "application/octet-stream")
	if matches(r, d) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	size, _ := img.blob(d)
	r, ok := withRange(r, d, size)
	if !ok {
		rejectRange(w, size)
		return nil
	}
	if config, ok := img.generated[d]; ok {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(config.Bytes))
		return nil
	}
	if a, ok := img.attachment(d); ok && !a.isManifest() {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.content))
		return nil
	}
	switch l, added := tok.layers[d]; {
	case added && l.from != nil:
		if src, err = s.images.readerOf(r.Context(), *l.from); err != nil {
			return err
		}
	case added:
		return s.addedLayer(w, r, d, l)
	}
	return s.upstreamBlob(w, r, src, ocispec.Descriptor{Digest: d, Size: size})
}

// addedLayer redirects the client to the layer's URL, or serves the layer from disk.
func (s *Registry) addedLayer(w http.ResponseWriter, r *http.Request, d digest.Digest, l addedLayer) error {
	if l.url != "" {
		redirect(w, l.url)
		return nil
	}
	f, err := s.layers.open(r.Context(), d)
	if err != nil {
		return err
	}
	defer f.Close()
	serveFile(w, r, f)
	return nil
}

func redirect(w http.ResponseWriter, location string) {
	w.Header().Set("Location", location)
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusTemporaryRedirect)
}

// isOwn reports whether host is this service's own public address. An upstream registry must
// not redirect clients there: the path would be the choice of its operator.
func (s *Registry) isOwn(host string) bool {
	own, err := url.Parse(s.deps.PublicURL)
	return err == nil && strings.EqualFold(own.Host, host)
}
