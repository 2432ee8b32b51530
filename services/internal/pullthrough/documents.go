package pullthrough

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/upstream"
)

// Kinds of content.
const (
	kindManifest = "manifest"
	kindBlob     = "blob"
	kindTag      = "tag"
)

// An item is a manifest or blob of one repository. The same digest in another repository is
// another item; see blob.Key.
type item struct {
	kind   string
	repo   upstream.Repository
	digest digest.Digest
}

// name returns the name of an item in the store.
func (it item) name(rights string) string {
	return storeName(it.kind, rights, it.repo, it.digest.String())
}

func storeName(kind, rights string, repo upstream.Repository, ref string) string {
	sum := sha256.Sum256([]byte(kind + "\n" + rights + "\n" + repo.Host + "\n" + repo.Name + "\n" + ref))
	return hex.EncodeToString(sum[:])
}

// keep returns the content of an item: the stored one, or what fetch returns.
func (r *Reader) keep(ctx context.Context, it item, a upstream.Access, fetch func(context.Context) ([]byte, error)) (content []byte, stale bool, err error) {
	for _, rights := range r.Rights(a) {
		content, ok, err := r.read(ctx, it, rights)
		if err != nil {
			return nil, false, err
		}
		if !ok {
			continue
		}
		if stale, err = r.mayRead(ctx, it, rights, a); err != nil {
			return nil, false, err
		}
		r.metrics.kept(it.kind, stale)
		return content, stale, nil
	}
	r.metrics.missed(it.kind)
	content, err = r.fetching.Do(ctx, grant{it, a.Login}, fetch)
	r.observe(ctx, it.repo, a, err, false)
	if err != nil {
		return nil, false, unavailable(err)
	}
	r.allowed(it, a)
	if !isPassing(ctx) {
		r.store.SetDocument(it.name(own(a)), content)
	}
	return content, false, nil
}

type passingKey struct{}

// Passing returns a context in which what is read is not kept: a client may cause many reads that
// serve nothing.
func Passing(ctx context.Context) context.Context { return context.WithValue(ctx, passingKey{}, true) }

func isPassing(ctx context.Context) bool { return ctx.Value(passingKey{}) != nil }

// read returns a stored item. ok is false if it is not stored or is damaged. Its memory is counted
// until the operation of the context ends; see upstream.Documents.Hold.
func (r *Reader) read(ctx context.Context, it item, rights string) (content []byte, ok bool, err error) {
	body, size, ok := r.store.Document(ctx, it.name(rights))
	if !ok {
		return nil, false, nil
	}
	defer body.Close()
	if size > limits.Document+mediaTypeBytes {
		return nil, false, nil
	}
	content, release, err := r.documents.Read(ctx, body, size)
	if err != nil {
		if _, busy := fault.As(err); busy || ctx.Err() != nil { // the memory budget is used up
			return nil, false, err
		}
		return nil, false, nil // it is requested again
	}
	defer release()
	raw := content
	if it.kind == kindManifest {
		_, raw, _ = bytes.Cut(content, []byte(newline))
	}
	return content, it.digest.Algorithm().FromBytes(raw) == it.digest, nil
}

// mediaTypeBytes is more than the length of the first line of a stored manifest.
const mediaTypeBytes = 256

const newline = "\n"

// encode returns a manifest in the form that is stored: its media type, a newline, and its bytes.
func encode(doc oci.Document) []byte {
	return bytes.Join([][]byte{[]byte(doc.MediaType), doc.Bytes}, []byte(newline))
}

// decode returns a stored manifest, whose digest has been verified.
func decode(content []byte, d digest.Digest) (oci.Document, error) {
	mediaType, raw, ok := bytes.Cut(content, []byte(newline))
	if !ok {
		return oci.Document{}, errors.New("a stored manifest has no media type")
	}
	doc := oci.NewDocument(string(mediaType), raw)
	doc.Digest = d
	return doc, nil
}
