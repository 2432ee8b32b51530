package pullthrough

import (
	"context"
	"net/http"
	"time"

	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/upstream"
)

// Stored content is separated by the rights with which it was read:
//
//   - What was read without a login is for everyone, for as long as it is kept. The registry is not
//     asked about it again.
//   - What was read with a login of the operator is for every request that would use this login.
//     The registry is asked again after Options.Recheck. While it does not answer, what it last
//     allowed the login in this process is served.
//   - What was read with a login of a user is for requests whose login the registry has allowed to
//     read it within Options.Recheck, however their users came by it. No login, and nothing that is
//     derived from one, is stored; so each process asks for itself.
const (
	public = "public"
	users  = "login"
)

// own returns the rights of an access.
func own(a upstream.Access) string {
	switch {
	case a.Login == upstream.Login{}:
		return public
	case a.Service:
		return "service " + a.Login.Username
	}
	return users
}

// Rights returns the rights with which an access may read stored content, those that need no
// permission first. It is a single "" for a Reader that keeps nothing: then the registry must
// permit each use.
func (r *Reader) Rights(a upstream.Access) []string {
	if r.store == nil {
		return []string{""}
	}
	if mine := own(a); mine != public {
		return []string{public, mine}
	}
	return []string{public}
}

// Own returns the rights with which an access reads what is not yet kept; see Rights.
func (r *Reader) Own(a upstream.Access) string {
	if r.store == nil {
		return ""
	}
	return own(a)
}

// A grant is the permission of a login to read something.
type grant struct {
	item
	login upstream.Login
}

// allowed records that a registry has let an access read something.
func (r *Reader) allowed(it item, a upstream.Access) {
	if (a.Login != upstream.Login{}) {
		r.grants.Set(grant{it, a.Login}, r.now())
	}
}

// Epoch changes when what an access has read must be checked again. It is part of the keys of
// caches in front of a Reader.
func (r *Reader) Epoch(a upstream.Access) int64 {
	if r.store == nil || own(a) == public {
		return 0
	}
	return r.now().UnixNano() / int64(max(r.recheck, 1))
}

// isRecent reports whether a registry's answer to a login is not older than Options.Recheck.
func (r *Reader) isRecent(answered time.Time) bool {
	age := r.now().Sub(answered)
	return age >= 0 && age < r.recheck
}

// MayRead returns an error unless an access may read a blob that is kept with the given rights.
// stale reports that the registry does not answer.
func (r *Reader) MayRead(ctx context.Context, repo upstream.Repository, d digest.Digest, rights string, a upstream.Access) (stale bool, err error) {
	it := item{kindBlob, repo, d}
	if r.store == nil {
		return false, r.ask(ctx, it, a)
	}
	stale, err = r.mayRead(ctx, it, rights, a)
	if err == nil {
		r.metrics.kept(it.kind, stale)
	}
	return stale, err
}

// An asked identifies a running request for a permission, and how long it waits.
type asked struct {
	grant
	patient bool
}

func (r *Reader) mayRead(ctx context.Context, it item, rights string, a upstream.Access) (stale bool, err error) {
	if rights == public {
		return false, nil
	}
	g := grant{it, a.Login}
	at, ok := r.grants.Get(g)
	if ok && r.isRecent(at) {
		return false, nil
	}
	known := ok && rights != users
	if known && r.isDown(it.repo, a) {
		return true, nil
	}
	_, err = r.asking.Do(ctx, asked{g, !known}, func(ctx context.Context) (struct{}, error) {
		ctx, end := r.limitWait(ctx, known)
		defer end()
		return struct{}{}, r.ask(ctx, it, a)
	})
	switch {
	case err == nil:
		r.allowed(it, a)
	case isRefusal(err):
		r.grants.Delete(g)
	}
	if r.observe(ctx, it.repo, a, err, known) {
		return true, nil
	}
	return false, unavailable(err)
}

// ask sends the registry the request that it would get if nothing were kept, but without fetching
// the content.
func (r *Reader) ask(ctx context.Context, it item, a upstream.Access) error {
	if it.kind == kindManifest {
		_, err := r.client.Resolve(ctx, it.repo, it.digest.String(), a)
		return err
	}
	b, err := r.client.Blob(ctx, http.MethodHead, it.repo, it.digest, a, "")
	if err == nil && b.Body != nil {
		_ = b.Body.Close()
	}
	return err
}
