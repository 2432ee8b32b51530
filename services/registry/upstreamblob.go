package registry

import (
	"net/http"
	"strconv"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/upstream"
	"slipway.dev/services/registry/blob"
)

// upstreamBlob serves an upstream blob: from the cache if the upstream registry confirms
// that the login may read it, otherwise from upstream.
func (s *Registry) upstreamBlob(w http.ResponseWriter, r *http.Request, src reader, d ocispec.Descriptor) error {
	key := blob.Key{Repo: src.repo, Digest: d.Digest, Size: d.Size}
	if r.Method == http.MethodGet {
		if f, ok := s.blobs.Find(r.Context(), key); ok {
			return s.serveFound(w, r, src, d, f)
		}
	}
	b, err := s.deps.Upstream.Blob(r.Context(), r.Method, src.repo, d.Digest, src.access, r.Header.Get("Range"))
	if upstream.IsRange(err) {
		rejectRange(w, d.Size)
		return nil
	}
	if err != nil {
		return err
	}
	if b.Redirect != nil {
		if s.isOwn(b.Redirect.Host) {
			return fault.Denied.Newf("The registry %s redirects to this service itself", src.repo.Host)
		}
		if r.Method == http.MethodGet {
			return s.redirectOrCache(w, r, src, key, b.Redirect.String())
		}
		// Presigned GET URLs often reject HEAD. The manifest has the size.
		b.Status, b.Size, b.Body = http.StatusOK, d.Size, http.NoBody
	}
	defer b.Body.Close()
	return s.forward(w, r, key, b)
}

// forward forwards the registry's response to the client, and caches it if it should be
// cached.
func (s *Registry) forward(w http.ResponseWriter, r *http.Request, key blob.Key, b *upstream.Blob) error {
	h := w.Header()
	h.Set("Accept-Ranges", "bytes")
	if b.ContentRange != "" {
		h.Set("Content-Range", b.ContentRange)
	}
	if b.Size >= 0 {
		h.Set("Content-Length", strconv.FormatInt(b.Size, 10))
	}
	w.WriteHeader(b.Status)
	switch {
	case r.Method == http.MethodHead:
		return nil
	case b.Status == http.StatusOK && b.Size == key.Size:
		if fill := s.blobs.Fill(key, b.Body); fill != nil {
			defer fill.End()
			return s.cacheBlob(w, r, fill)
		}
	}
	return s.streams.copy(w, b.Body, r.TLS == nil)
}

// serveFound serves a blob from the cache if the upstream registry confirms that the login
// may read it.
func (s *Registry) serveFound(w http.ResponseWriter, r *http.Request, src reader, d ocispec.Descriptor, f blob.Found) error {
	defer f.Close()
	if err := s.checkAccess(r, src, d); err != nil {
		return err
	}
	if f.File == nil {
		redirect(w, f.URL)
	} else {
		serveFile(w, r, f.File)
	}
	return nil
}

// checkAccess sends the upstream registry the request that it would get without a cache, but
// without fetching the content. It returns an error unless this login may read this blob of
// this repository now.
func (s *Registry) checkAccess(r *http.Request, src reader, d ocispec.Descriptor) error {
	b, err := s.deps.Upstream.Blob(r.Context(), http.MethodHead, src.repo, d.Digest, src.access, "")
	if err == nil && b.Body != nil {
		_ = b.Body.Close()
	}
	return err
}

// redirectOrCache redirects a client, unless the blob is to be cached: then the registry fetches
// it from the redirect's target.
func (s *Registry) redirectOrCache(w http.ResponseWriter, r *http.Request, src reader, key blob.Key, location string) error {
	if r.Header.Get("Range") != "" || !s.blobs.Accepts(key.Size) {
		redirect(w, location)
		return nil
	}
	fill := s.blobs.Fill(key, nil)
	if fill == nil { // another request is caching it
		redirect(w, location)
		return nil
	}
	defer fill.End()
	body, err := s.deps.Upstream.ReadBlob(r.Context(), src.repo, key.Digest, src.access, 0, key.Size)
	if err != nil { // clients may reach hosts that this service may not
		redirect(w, location)
		return nil
	}
	defer body.Close()
	fill.Body = body
	w.Header().Set("Accept-Ranges", "bytes")
	w.Header().Set("Content-Length", strconv.FormatInt(key.Size, 10))
	w.WriteHeader(http.StatusOK)
	return s.cacheBlob(w, r, fill)
}

// cacheBlob sends a whole blob to the client and caches it. The client never waits for the
// disk.
func (s *Registry) cacheBlob(w http.ResponseWriter, r *http.Request, fill *blob.Filling) error {
	if err := s.streams.copy(w, fill, r.TLS == nil); err != nil {
		return err
	}
	_ = http.NewResponseController(w).Flush() // not every writer supports Flush
	fill.Commit()
	return nil
}
