package registry

import (
	"context"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/maypok86/otter/v2/stats"
	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/memo"
	"slipway.dev/services/internal/upstream"
)

// tagKey is a tag as one login sees it: what it leads to is another's business no more
// than the image is.
type tagKey struct {
	access upstream.Access
	repo   upstream.Repository
	tag    string
}

// tagAnswer is what a tag pointed at, by a registry that was asked at a time.
type tagAnswer struct {
	digest digest.Digest
	asked  time.Time
}

// tagAnswers asks what tags point at, once for all who ask at a time, and again when the
// answer is as old as the settings allow.
type tagAnswers struct {
	now       func() time.Time
	freshness time.Duration
	known     *otter.Cache[tagKey, tagAnswer]
	asking    memo.Flight[tagKey, tagAnswer]
	hits      *stats.Counter
}

func newTagAnswers(d Deps) *tagAnswers {
	return &tagAnswers{
		now: d.Now, freshness: d.TagFreshness, hits: stats.NewCounter(),
		known: otter.Must(&otter.Options[tagKey, tagAnswer]{MaximumSize: limits.TagAnswers}),
	}
}

// ask returns what a tag points at, with an error of work's.
func (t *tagAnswers) ask(ctx context.Context, key tagKey, work func(context.Context) (digest.Digest, error)) (digest.Digest, error) {
	if a, ok := t.known.GetIfPresent(key); ok && t.now().Sub(a.asked) < t.freshness {
		t.hits.RecordHits(1)
		return a.digest, nil
	}
	t.hits.RecordMisses(1)
	a, err := t.asking.Do(ctx, key, func(ctx context.Context) (tagAnswer, error) {
		asked := t.now()
		d, err := work(ctx)
		return tagAnswer{d, asked}, err
	})
	switch {
	case err != nil:
		t.known.Invalidate(key) // the login may have lost it
	case t.freshness > 0:
		t.known.Set(key, a)
	}
	return a.digest, err
}
