package pullthrough

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/upstream"
)

// A tagRecord is what a registry answered for a tag, and when. The zero value is a tag that it did
// not let the caller read.
type tagRecord struct {
	Digest digest.Digest `json:"digest"`
	Asked  time.Time     `json:"asked"`
}

// A loginTag identifies a tag as one login of a user sees it.
type loginTag struct {
	repo  upstream.Repository
	tag   string
	login upstream.Login
}

// Resolve returns the digest of a tag, or verifies that the caller may read a digest.
func (r *Reader) Resolve(ctx context.Context, repo upstream.Repository, ref string, a upstream.Access) (Tag, error) {
	d := digest.Digest(ref)
	switch {
	case r.store == nil:
		d, err := r.client.Resolve(ctx, repo, ref, a)
		return Tag{Digest: d}, err
	case d.Validate() == nil:
		stale, err := r.verify(ctx, item{kindManifest, repo, d}, a)
		return Tag{d, stale}, err
	}
	return r.current(ctx, repo, ref, a, r.recall(ctx, repo, ref, a))
}

// verify returns an error unless a caller may read a manifest.
func (r *Reader) verify(ctx context.Context, it item, a upstream.Access) (stale bool, err error) {
	for _, rights := range r.Rights(a) {
		body, _, ok := r.store.Document(ctx, it.name(rights))
		if !ok {
			continue
		}
		_ = body.Close()
		if stale, err = r.mayRead(ctx, it, rights, a); err == nil {
			r.metrics.kept(it.kind, stale)
		}
		return stale, err
	}
	r.metrics.missed(it.kind)
	err = r.ask(ctx, it, a)
	r.observe(ctx, it.repo, a, err, false)
	if err == nil {
		r.allowed(it, a)
	}
	return false, unavailable(err)
}

// A recalled is what is known of a tag.
type recalled struct {
	tagRecord
	// known reports whether anything is known, and usable whether it may be served without an
	// answer of the registry.
	known, usable bool
}

// current returns the digest of a tag, of which old is known.
func (r *Reader) current(ctx context.Context, repo upstream.Repository, tag string, a upstream.Access, old recalled) (Tag, error) {
	if old.usable && (r.isFresh(old.tagRecord) || r.isDown(repo, a)) {
		stale := !r.isFresh(old.tagRecord)
		r.metrics.kept(kindTag, stale)
		return Tag{old.Digest, stale}, nil
	}
	asked := r.now()
	trying, end := r.limitWait(ctx, old.usable)
	defer end()
	d, err := r.client.Resolve(trying, repo, tag, a)
	if r.observe(ctx, repo, a, err, old.usable) {
		r.metrics.kept(kindTag, true)
		return Tag{old.Digest, true}, nil
	}
	r.metrics.missed(kindTag)
	r.remember(repo, tag, a, old, tagRecord{d, asked}, err)
	return Tag{Digest: d}, unavailable(err)
}

// tagged returns the manifest of a tag. If nothing is known of it, one request fetches both.
func (r *Reader) tagged(ctx context.Context, repo upstream.Repository, tag string, a upstream.Access) (Document, error) {
	old := r.recall(ctx, repo, tag, a)
	if old.known {
		// The manifest is probably stored, and a registry counts no pull if it is only asked for
		// the digest.
		at, err := r.current(ctx, repo, tag, a, old)
		if err != nil {
			return Document{}, err
		}
		doc, err := r.manifest(ctx, item{kindManifest, repo, at.Digest}, a)
		doc.Stale = doc.Stale || at.Stale
		return doc, err
	}
	asked := r.now()
	doc, err := r.client.Manifest(ctx, repo, tag, a)
	r.observe(ctx, repo, a, err, false)
	r.metrics.missed(kindTag)
	r.remember(repo, tag, a, old, tagRecord{doc.Digest, asked}, err)
	if err != nil {
		return Document{}, unavailable(err)
	}
	it := item{kindManifest, repo, doc.Digest}
	r.allowed(it, a)
	r.store.SetDocument(it.name(own(a)), encode(doc))
	return Document{Document: doc}, nil
}

// isFresh reports whether a registry need not be asked about a tag again.
func (r *Reader) isFresh(k tagRecord) bool {
	age := r.now().Sub(k.Asked)
	return age >= 0 && age < r.freshness
}

// recall returns what is known of a tag.
func (r *Reader) recall(ctx context.Context, repo upstream.Repository, tag string, a upstream.Access) recalled {
	rights := own(a)
	if rights == users {
		k, ok := r.tags.Get(loginTag{repo, tag, a.Login})
		return recalled{k, ok, ok && r.isRecent(k.Asked)}
	}
	body, _, ok := r.store.Document(ctx, storeName(kindTag, rights, repo, tag))
	if !ok {
		return recalled{}
	}
	defer body.Close()
	raw, err := io.ReadAll(io.LimitReader(body, limits.TagRecord))
	if err != nil {
		return recalled{}
	}
	k, ok := parseTag(raw)
	if ok && rights != public {
		_, allowed := r.grants.Get(grant{tagItem(repo, tag), a.Login})
		return recalled{k, ok, allowed}
	}
	return recalled{k, ok, ok}
}

// tagItem returns the item for the permission to read a tag.
func tagItem(repo upstream.Repository, tag string) item {
	return item{kindTag, repo, digest.Digest(tag)}
}

// parseTag reads the record of a tag. ok is false if it is damaged, or if the caller could not
// read the tag.
func parseTag(raw []byte) (k tagRecord, ok bool) {
	err := json.Unmarshal(raw, &k)
	return k, err == nil && k.Digest.Validate() == nil
}

// remember records what a registry answered for a tag, or that it did not let the caller read it.
func (r *Reader) remember(repo upstream.Repository, tag string, a upstream.Access, old recalled, now tagRecord, err error) {
	if err == nil {
		r.allowed(tagItem(repo, tag), a)
	}
	switch {
	case isRefusal(err):
		r.grants.Delete(grant{tagItem(repo, tag), a.Login})
		if !old.known {
			return
		}
		now = tagRecord{}
	case err != nil:
		return
	case old.known && old.Digest == now.Digest && own(a) != users && r.freshness == 0 && now.Asked.Sub(old.Asked) < limits.TagRecordAge:
		return // the time of the answer is only needed for the freshness
	}
	rights := own(a)
	if rights == users {
		key := loginTag{repo, tag, a.Login}
		if now.Digest == "" {
			r.tags.Delete(key)
		} else {
			r.tags.Set(key, now)
		}
		return
	}
	raw, err := json.Marshal(now)
	if err == nil {
		r.store.SetDocument(storeName(kindTag, rights, repo, tag), raw)
	}
}
