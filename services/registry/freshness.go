package registry

import (
	"context"
	"time"

	"github.com/maypok86/otter/v2/stats"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/memo"
	"slipway.dev/services/internal/pullthrough"
	"slipway.dev/services/internal/upstream"
)

// A tagKey identifies a tag as one login sees it. Logins do not share results, since one
// may read what another may not.
type tagKey struct {
	access upstream.Access
	repo   upstream.Repository
	tag    string
}

// A resolvedTag is the digest that a registry returned for a tag, and when.
type resolvedTag struct {
	pullthrough.Tag
	asked time.Time
}

// tagCache resolves tags. Concurrent calls for one key share one request, and a result is
// reused for as long as the settings allow.
type tagCache struct {
	now       func() time.Time
	freshness time.Duration
	known     *memo.Cache[tagKey, resolvedTag]
	asking    memo.Flight[tagKey, resolvedTag]
	hits      *stats.Counter
}

func newTagCache(d Deps) *tagCache {
	return &tagCache{
		now: d.Now, freshness: d.TagFreshness, hits: stats.NewCounter(),
		known: memo.NewCache(memo.Options[tagKey, resolvedTag]{Most: limits.TagAnswers}),
	}
}

// lookup returns what a tag points at, or the error of work. If kept is set, work itself reuses
// results.
func (t *tagCache) lookup(ctx context.Context, key tagKey, kept bool, work func(context.Context) (pullthrough.Tag, error)) (pullthrough.Tag, error) {
	if kept {
		a, err := t.asking.DoHere(ctx, key, func(ctx context.Context) (resolvedTag, error) {
			tag, err := work(ctx)
			return resolvedTag{Tag: tag}, err
		})
		return a.Tag, err
	}
	if a, ok := t.known.Get(key); ok && t.now().Sub(a.asked) < t.freshness {
		t.hits.RecordHits(1)
		return a.Tag, nil
	}
	t.hits.RecordMisses(1)
	a, err := t.asking.DoHere(ctx, key, func(ctx context.Context) (resolvedTag, error) {
		asked := t.now()
		d, err := work(ctx)
		return resolvedTag{d, asked}, err
	})
	switch {
	case err != nil:
		t.known.Delete(key) // the login may no longer be allowed to read it
	case t.freshness > 0:
		t.known.Set(key, a)
	}
	return a.Tag, err
}
