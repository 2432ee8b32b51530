package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/opencontainers/go-digest"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/policy/enforce"
	"slipway.dev/services/internal/pullthrough"
)

// manifest serves the requested reference, or a digest that belongs to the image.
func (s *Registry) manifest(w http.ResponseWriter, r *http.Request, p path, tok *resolvedToken) error {
	doc, attached, err := s.read(r.Context(), tok, p.ref)
	if err != nil {
		return err
	}
	warnIfStale(w.Header(), doc.Stale)
	// Signed statements are no pulls.
	if r.Method == http.MethodGet && oci.IsManifest(doc.MediaType) && !attached {
		quota, err := s.charge(r, tok.identity)
		if err != nil {
			return err
		}
		setQuota(w.Header(), quota.All())
		s.counter.pull(r.Context(), tok)
		s.kept.pull(tok)
	}
	h := w.Header()
	h.Set("Docker-Content-Digest", doc.Digest.String())
	h.Set("Etag", etag(doc.Digest))
	if matches(r, doc.Digest) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	h.Set("Content-Type", doc.MediaType)
	h.Set("Content-Length", strconv.Itoa(len(doc.Bytes)))
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodGet {
		_, _ = w.Write(doc.Bytes) // the client may have disconnected
	}
	return nil
}

func etag(d digest.Digest) string { return `"` + d.String() + `"` }

// matches reports whether the client already has d (If-None-Match).
func matches(r *http.Request, d digest.Digest) bool {
	sent := r.Header.Get("If-None-Match")
	if sent == "" {
		return false
	}
	for tag := range strings.SplitSeq(sent, ",") {
		tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/")
		if tag == etag(d) || tag == "*" {
			return true
		}
	}
	return false
}

// read returns the document at the requested reference, or at a digest that belongs to the
// image. attached reports whether it is a signed statement about the image.
func (s *Registry) read(ctx context.Context, tok *resolvedToken, ref string) (doc pullthrough.Document, attached bool, err error) {
	src, err := s.images.reader(ctx, tok)
	if err != nil {
		return doc, false, err
	}
	if ref == tok.ref {
		doc, err = s.current(ctx, tok, src)
		return doc, false, err
	}
	if d, ok := referrersTag(ref); ok {
		doc, err = s.readReferrersTag(ctx, tok, ref, d)
		return doc, true, err
	}
	d, err := parseDigest(ref)
	if err != nil {
		if strings.Contains(ref, ":") {
			return doc, false, invalidDigest(ref)
		}
		return doc, false, unknownManifest(fmt.Sprintf("This name is for the tag %q only", tok.ref))
	}
	img, err := s.find(ctx, tok, src, func(img *image) bool { return img.leadsTo(d) })
	if err != nil {
		return doc, false, err
	}
	if img == nil {
		return doc, false, unknownManifest("The image does not lead to the manifest " + d.String())
	}
	if _, attached = img.attachment(d); !attached {
		if err := tok.checkScan(img.key.digest); err != nil {
			return doc, false, err
		}
	}
	doc.Document, err = src.document(ctx, img, d)
	if err == nil && !attached {
		err = tok.checkScanned(img, doc.Document)
	}
	return doc, attached, err // a digest is always current
}

// current returns the document that the reference resolves to now, within TagFreshness.
func (s *Registry) current(ctx context.Context, tok *resolvedToken, src reader) (pullthrough.Document, error) {
	at, err := s.resolve(ctx, tok, src)
	if err != nil {
		return pullthrough.Document{}, err
	}
	if err := tok.checkScan(at.Digest); err != nil {
		return pullthrough.Document{}, err
	}
	img, err := src.image(ctx, tok, at.Digest)
	if err != nil {
		return pullthrough.Document{}, err
	}
	return pullthrough.Document{Document: img.root, Stale: at.Stale}, nil
}

// resolve resolves the reference and records the digest before the response is sent. So
// every replica can serve the rest of the pull, even if the tag moves. It returns errLost if
// the registry has no image that a build has pushed.
func (s *Registry) resolve(ctx context.Context, tok *resolvedToken, src reader) (pullthrough.Tag, error) {
	at, err := src.resolve(ctx, tok)
	if tok.build != "" && errors.Is(err, fault.NotFound) {
		return at, fmt.Errorf("%w: %w", errLost, err)
	}
	if err != nil || tok.hasRoot(at.Digest) {
		return at, err
	}
	if err := src.checkSigned(ctx, tok, at.Digest); err != nil {
		return at, err
	}
	_, err = s.deps.Containers.RecordDigest(ctx, &containerv1.RecordDigestRequest{Token: tok.token, Digest: at.Digest.String()})
	if err != nil {
		return at, fmt.Errorf("recording what a tag resolved to: %w", err)
	}
	tok.addRoots(at.Digest)
	return at, nil
}

// warnIfStale says that the registry of an image could not be asked about it (RFC 7234, 5.5.1).
func warnIfStale(h http.Header, stale bool) {
	if stale {
		h.Set("Warning", `110 - "response is stale"`)
	}
}

// find returns the first image that has accepts, or nil. It searches the images that the
// token's source has resolved to, newest first: those in memory, then those in the durable
// record, then all manifests behind each. If the name's tag has never been requested, find
// resolves it first, since a client may know the digest from elsewhere and begin with it. If
// a built image is not found, it may be lost: find resolves the tag to find that out.
func (s *Registry) find(ctx context.Context, tok *resolvedToken, src reader, has func(*image) bool) (*image, error) {
	img, err := src.search(ctx, tok, has, false)
	if img != nil || err != nil {
		return img, err
	}
	if err := s.tokens.refresh(ctx, tok); err != nil {
		return nil, err
	}
	if len(tok.allRoots()) == 0 {
		if _, err := s.resolve(ctx, tok, src); err != nil {
			return nil, err
		}
	}
	img, err = src.search(ctx, tok, has, true)
	if img == nil && err == nil && tok.build != "" {
		_, err = s.resolve(ctx, tok, src)
	}
	return img, err
}

// search searches the images that the source has resolved to. If deep is set, it also reads the
// manifests behind each: first those that its index lists, then referrers.
func (r reader) search(ctx context.Context, tok *resolvedToken, has func(*image) bool, deep bool) (*image, error) {
	var refused error
	for _, root := range tok.allRoots() {
		img, err := r.image(ctx, tok, root)
		if enforce.IsRefusal(err) {
			refused = err // an earlier image may be signed
			continue
		}
		if errors.Is(err, fault.NotFound) {
			continue // upstream has deleted what the tag once pointed at
		}
		if err != nil {
			return nil, err
		}
		if has(img) {
			return img, nil
		}
		if !deep {
			continue
		}
		for _, how := range []depth{listed, referring} {
			if err := r.walk(ctx, tok, root, img, how); err != nil {
				return nil, err
			}
			if has(img) {
				return img, nil
			}
		}
		if r.attachAll(ctx, tok, img); has(img) {
			return img, nil
		}
	}
	return nil, refused
}
