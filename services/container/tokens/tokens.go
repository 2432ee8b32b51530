// Package tokens makes the tokens in names, and keeps the live ones at hand in Redis. What
// is kept anywhere is a token's key; SQL, which has every request, is the truth.
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

// New makes a token: 130 random bits in 26 characters of [a-z2-7].
func New() string {
	var b [17]byte
	_, _ = rand.Read(b[:]) // never fails
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b[:]))[:26]
}

// Is says whether s has the form of a token.
func Is(s string) bool {
	return len(s) == 26 && !strings.ContainsFunc(s, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '2' || r > '7') })
}

// KeyOf is what a token is kept under, in SQL, in Redis and on the bus: whoever reads
// one of them learns no token. It is random and long, so that a plain hash gives
// nothing away. A key stays as it is.
func KeyOf(token string) string {
	if !Is(token) {
		return token
	}
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// IsKey says whether s has the form of what a token is kept under.
func IsKey(s string) bool {
	return len(s) == 2*sha256.Size && strings.Trim(s, "0123456789abcdef") == ""
}

// Without is a plan as it is kept: without its token.
func Without(plan *containerv1.Plan) *containerv1.Plan {
	kept := proto.CloneOf(plan)
	kept.Token = ""
	return kept
}

// MaxDigests is how many of the digests that a tag has moved through are kept in
// sight: a pull that is under way needs the newest few.
const MaxDigests = 32

// Cache is the copy of live tokens in Redis. A token's key is a hash with the
// fields `plan`; `revoked`; and `d:<digest>` = when it was recorded. Each field
// is written on its own and none is ever taken back, so that it does not matter
// who writes first: a revoked token stays revoked, whoever reloads it.
type Cache struct {
	redis redis.UniversalClient
	log   *slog.Logger
	bound *bound
}

// NewCache makes one that keeps to so many bytes; 0 is no bound.
func NewCache(client redis.UniversalClient, log *slog.Logger, most int64) Cache {
	return Cache{client, log, newBound(most)}
}

const (
	fieldPlan    = "plan"
	fieldRevoked = "revoked"
	fieldDigest  = "d:"
)

// ErrRevoked is why a token gives no plan any more.
var ErrRevoked = errors.New("the token is revoked")

func keyIn(token string) string { return "container:token:" + KeyOf(token) }

// Get reads a token: nil when it is not there or Redis does not answer;
// errRevoked when it is revoked.
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

// Put writes what a token, or its key, stands for, with its life.
func (c Cache) Put(ctx context.Context, token string, plan *containerv1.Plan) error {
	raw, err := proto.Marshal(Without(plan))
	if err != nil {
		return err
	}
	return c.write(ctx, token, plan.GetExpiration().AsTime(), fieldPlan, string(raw))
}

// PutDigest writes what a token's reference resolved to.
func (c Cache) PutDigest(ctx context.Context, token, digest string, now, expires time.Time) error {
	return c.write(ctx, token, expires, fieldDigest+digest, strconv.FormatInt(now.UnixMicro(), 10))
}

// PutRevoked ends a token, for whoever reads it here.
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
