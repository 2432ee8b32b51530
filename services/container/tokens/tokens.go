// Package tokens creates the tokens in image names and the ids of requests, and caches
// the plans of live tokens in Redis. No token is stored: everything is stored under the id
// of its request. SQL, which has every request, is authoritative.
package tokens

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/proto"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
)

// New returns a new token: 130 random bits in 26 characters of [a-z2-7].
func New() string {
	var b [17]byte
	_, _ = rand.Read(b[:]) // never fails
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b[:]))[:26]
}

// Is reports whether s has the form of a token.
func Is(s string) bool {
	return len(s) == 26 && !strings.ContainsFunc(s, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '2' || r > '7') })
}

// IDOf returns the id of the request whose name holds token. Requests are stored under
// their ids in SQL, in Redis and on the bus, and responses, lists and logs show them: the
// token cannot be derived from an id. Tokens are long and random, so that a plain hash is
// enough. IDOf returns an id unchanged.
func IDOf(token string) string {
	if !Is(token) {
		return token
	}
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// IsID reports whether s has the form of a request's id.
func IsID(s string) bool {
	return len(s) == 2*sha256.Size && strings.Trim(s, "0123456789abcdef") == ""
}

// Without returns a copy of a plan without its token, for storage.
func Without(plan *containerv1.Plan) *containerv1.Plan {
	kept := proto.CloneOf(plan)
	kept.Token = ""
	return kept
}

// MaxDigests is the maximum number of recorded digests of a tag that moves. A running pull
// only needs the newest ones.
const MaxDigests = 32

// Cache is the copy of unexpired tokens in Redis. A token has a Redis hash with the fields
// `plan`, `revoked`, and `d:<digest>` with the time when the digest was recorded. Fields
// are written independently and never removed, so the order of writes does not matter: a
// revoked token stays revoked even if another replica reloads it.
type Cache struct {
	redis redis.UniversalClient
	log   *slog.Logger
	bound *bound
}

// NewCache returns a cache that holds up to most bytes; 0 means no limit.
func NewCache(client redis.UniversalClient, log *slog.Logger, most int64) Cache {
	return Cache{client, log, newBound(most)}
}

const (
	fieldPlan    = "plan"
	fieldRevoked = "revoked"
	fieldDigest  = "d:"
)

// ErrRevoked is returned for a revoked token.
var ErrRevoked = errors.New("the token is revoked")

func keyIn(token string) string { return "container:token:" + IDOf(token) }

// Get returns the plan of a token, or nil if it is not cached or Redis is unavailable. It
// returns ErrRevoked for a revoked token.
func (c Cache) Get(ctx context.Context, token string) (*containerv1.Plan, error) {
	c.bound.use(keyIn(token))
	fields, err := c.redis.HGetAll(ctx, keyIn(token)).Result()
	if err != nil {
		c.log.DebugContext(ctx, "Redis does not answer; reading SQL", "err", err)
		return nil, nil
	}
	if fields[fieldRevoked] != "" {
		return nil, ErrRevoked
	}
	raw, ok := fields[fieldPlan]
	if !ok {
		return nil, nil
	}
	plan := &containerv1.Plan{}
	if err := proto.Unmarshal([]byte(raw), plan); err != nil {
		c.log.WarnContext(ctx, "A token in Redis cannot be read; reading SQL", "err", err)
		return nil, nil
	}
	plan.Token = token
	plan.Digests = append(laterDigests(fields), plan.GetDigests()...)
	return plan, nil
}

func laterDigests(fields map[string]string) []string {
	type at struct {
		digest string
		micros int64
	}
	var list []at
	for k, v := range fields {
		if d, ok := strings.CutPrefix(k, fieldDigest); ok {
			n, _ := strconv.ParseInt(v, 10, 64)
			list = append(list, at{d, n})
		}
	}
	slices.SortFunc(list, func(a, b at) int { return cmp.Compare(b.micros, a.micros) })
	out := make([]string, 0, len(list))
	for _, e := range list {
		out = append(out, e.digest)
	}
	return out[:min(len(out), MaxDigests)]
}

// Put stores the plan of a token or its key until the plan expires.
func (c Cache) Put(ctx context.Context, token string, plan *containerv1.Plan) error {
	raw, err := proto.Marshal(Without(plan))
	if err != nil {
		return err
	}
	return c.write(ctx, token, plan.GetExpiration().AsTime(), fieldPlan, string(raw))
}

// PutDigest records a digest that a token's reference resolved to.
func (c Cache) PutDigest(ctx context.Context, token, digest string, now, expires time.Time) error {
	return c.write(ctx, token, expires, fieldDigest+digest, strconv.FormatInt(now.UnixMicro(), 10))
}

// PutRevoked revokes a token for all replicas that use this cache.
func (c Cache) PutRevoked(ctx context.Context, token string, expires time.Time) error {
	return c.write(ctx, token, expires, fieldRevoked, "1")
}

func (c Cache) write(ctx context.Context, token string, expires time.Time, field, value string) error {
	gone := c.bound.add(keyIn(token), len(field)+len(value))
	_, err := c.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, t := range gone {
			p.Del(ctx, t)
		}
		p.HSet(ctx, keyIn(token), field, value)
		p.PExpireAt(ctx, keyIn(token), expires)
		return nil
	})
	return err
}
