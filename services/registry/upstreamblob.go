package registry

import (
	"bytes"
	"net/http"
	"strconv"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/upstream"
	"slipway.dev/services/registry/blob"
)

// upstreamBlob serves an upstream blob: from the cache if the login may read it, otherwise from
// upstream.
func (s *Registry) upstreamBlob(w http.ResponseWriter, r *http.Request, src reader, d ocispec.Descriptor) error {
	if src.from.Keeps() && d.Size <= limits.KeptBlob {
		if done, err := s.smallBlob(w, r, src, d); done || err != nil {
			return err
		}
	}
	if r.Method == http.MethodGet || src.from.Keeps() {
		if done, err := s.cachedBlob(w, r, src, d); done || err != nil {
			return err
		}
	}
	if parts, _ := parseRanges(r.Header.Get("Range"), d.Size); len(parts) > 1 {
		return s.upstreamParts(w, r, src, d, parts)
	}
	key := blob.Key{Repo: src.repo, Digest: d.Digest, Size: d.Size, Rights: src.from.Own(src.access)}
	b, err := src.from.Open(r.Context(), r.Method, src.repo, d.Digest, src.access, r.Header.Get("Range"))
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

// smallBlob serves a blob that is kept like a manifest, since it is not worth a URL. It returns
// false if the registry does not send it: clients may reach a redirect's target that this service
// does not.
func (s *Registry) smallBlob(w http.ResponseWriter, r *http.Request, src reader, d ocispec.Descriptor) (done bool, err error) {
	content, stale, err := src.from.Blob(r.Context(), src.repo, d, src.access)
	if e, ok := fault.As(err); ok && upstream.IsRegistry(e) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	warnIfStale(w.Header(), stale)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	return true, nil
}

// cachedBlob serves a blob from the cache. It returns false if no blob that the login may read is
// cached.
func (s *Registry) cachedBlob(w http.ResponseWriter, r *http.Request, src reader, d ocispec.Descriptor) (done bool, err error) {
	for _, rights := range src.from.Rights(src.access) {
		f, ok := s.blobs.Find(r.Context(), blob.Key{Repo: src.repo, Digest: d.Digest, Size: d.Size, Rights: rights})
		if ok {
			return true, s.serveFound(w, r, src, d, rights, f)
		}
	}
	return false, nil
}

// serveFound serves a blob from the cache, if the login may read what is cached with these rights.
func (s *Registry) serveFound(w http.ResponseWriter, r *http.Request, src reader, d ocispec.Descriptor, rights string, f blob.Found) error {
	defer f.Close()
	stale, err := src.from.MayRead(r.Context(), src.repo, d.Digest, rights, src.access)
	if err != nil {
		return err
	}
	warnIfStale(w.Header(), stale)
	switch {
	case f.File != nil:
		serveFile(w, r, f.File)
	case r.Method == http.MethodHead:
		w.Header().Set("Accept-Ranges", "bytes")
		w.Header().Set("Content-Length", strconv.FormatInt(d.Size, 10))
		w.WriteHeader(http.StatusOK)
	default:
		redirect(w, f.URL)
	}
	return nil
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
