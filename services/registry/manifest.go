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
)

// manifest answers the requested reference, or a digest that it leads to.
func (s *Registry) manifest(w http.ResponseWriter, r *http.Request, p path, tok *resolvedToken) error {
	doc, err := s.document(r.Context(), tok, p.ref)
	if err != nil {
		return err
	}
	if r.Method == http.MethodGet && oci.IsManifest(doc.MediaType) {
		quota, err := s.charge(r, tok.who)
		if err != nil {
			return err
		}
		setQuota(w.Header(), quota.Meta())
		s.counter.pull(r.Context(), tok)
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
		_, _ = w.Write(doc.Bytes) // the client may be gone; nobody is left to tell
	}
	return nil
}

func etag(d digest.Digest) string { return `"` + d.String() + `"` }

// matches says whether the client has d already (If-None-Match).
func matches(r *http.Request, d digest.Digest) bool {
	for tag := range strings.SplitSeq(r.Header.Get("If-None-Match"), ",") {
		tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/")
		if tag == etag(d) || tag == "*" {
			return true
		}
	}
	return false
}

func (s *Registry) document(ctx context.Context, tok *resolvedToken, ref string) (oci.Document, error) {
	src, err := s.images.reader(ctx, tok)
	if err != nil {
		return oci.Document{}, err
	}
	if ref == tok.ref {
		return s.current(ctx, tok, src)
	}
	d, err := digest.Parse(ref)
	if err != nil {
		if strings.Contains(ref, ":") {
			return oci.Document{}, invalidDigest(ref)
		}
		return oci.Document{}, unknownManifest(fmt.Sprintf("This name is for the tag %q only", tok.ref))
	}
	img, err := s.find(ctx, tok, src, func(img *image) bool { return img.leadsTo(d) })
	if err != nil {
		return oci.Document{}, err
	}
	if img == nil {
		return oci.Document{}, unknownManifest("The image does not lead to the manifest " + d.String())
	}
	return src.document(ctx, img, d)
}

// current resolves the reference anew.
func (s *Registry) current(ctx context.Context, tok *resolvedToken, src reader) (oci.Document, error) {
	root, err := s.resolve(ctx, tok, src)
	if err != nil {
		return oci.Document{}, err
	}
	img, err := src.image(ctx, tok, root)
	if err != nil {
		return oci.Document{}, err
	}
	return img.root, nil
}

// resolve asks what the reference is now and records it, before the answer: so every
// replica can serve the rest of the pull, wherever the tag goes.
func (s *Registry) resolve(ctx context.Context, tok *resolvedToken, src reader) (digest.Digest, error) {
	root, err := src.resolve(ctx, tok)
	if err != nil || tok.sees(root) {
		return root, err
	}
	_, err = s.deps.Containers.RecordDigest(ctx, &containerv1.RecordDigestRequest{Token: tok.token, Digest: root.String()})
	if err != nil {
		return "", fmt.Errorf("recording what a tag resolved to: %w", err)
	}
	tok.saw(root)
	return root, nil
}

// find looks through the images that the token's source has resolved to, newest
// first: at what memory knows, then at what the durable record knows, then
// behind every manifest. A name that nobody has asked for its tag yet is resolved
// first: whoever has the digest from elsewhere may begin with it. nil when it is
// nowhere.
func (s *Registry) find(ctx context.Context, tok *resolvedToken, src reader, has func(*image) bool) (*image, error) {
	img, err := src.search(ctx, tok, has, false)
	if img != nil || err != nil {
		return img, err
	}
	if err := s.tokens.renew(ctx, tok); err != nil {
		return nil, err
	}
	if len(tok.seen()) == 0 {
		if _, err := s.resolve(ctx, tok, src); err != nil {
			return nil, err
		}
	}
	return src.search(ctx, tok, has, true)
}

func (r reader) search(ctx context.Context, tok *resolvedToken, has func(*image) bool, deep bool) (*image, error) {
	for _, root := range tok.seen() {
		img, err := r.image(ctx, tok, root)
		if errors.Is(err, fault.NotFound) {
			continue // what the tag once was is gone upstream
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
		if err := r.walk(ctx, tok, root, img); err != nil {
			return nil, err
		}
		if has(img) {
			return img, nil
		}
	}
	return nil, nil
}
