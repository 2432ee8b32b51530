// Package ratelimit counts what callers do in Redis and says when it is enough: a
// sliding window that is right across replicas
// (gateway/contract/container-service.md#limits). A busy caller's charges are counted in
// slices: some of what is left are charged at once and spent in memory. It owns the Redis prefix `limit:`
// and knows nothing of what is counted.
package ratelimit

import (
	"context"
	_ "embed"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"slipway.dev/services/internal/fault"
)

// buckets is how many parts a window is counted in. The part that the window's
// start falls into counts whole, so a caller may be held to a sixtieth less than
// the rule allows, but never gets more.
const buckets = 60

//go:embed charge.lua
var chargeScript string

// pause is how long Redis is left alone after it failed.
const pause = time.Second

// Limiter charges callers. Safe for concurrent use.
type Limiter struct {
	redis   redis.UniversalClient
	script  *redis.Script
	log     *slog.Logger
	refused *prometheus.CounterVec
	open    prometheus.Counter
	downTil atomic.Int64 // Unix nanoseconds; 0 while Redis answers
	stock   *stock
}

// New makes a Limiter and registers its metrics.
func New(client redis.UniversalClient, reg prometheus.Registerer, log *slog.Logger) *Limiter {
	l := &Limiter{
		redis:  client,
		script: redis.NewScript(chargeScript),
		log:    log,
		stock:  newStock(),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slipway_ratelimit_refused_total", Help: "Calls refused because a limit was used up, by limit.",
		}, []string{"limit"}),
		open: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "slipway_ratelimit_open_total", Help: "Calls let through uncounted because Redis did not answer.",
		}),
	}
	l.stock.sweep = l.sweep
	reg.MustRegister(l.refused, l.open)
	return l
}

// Quota is where a caller stands after a charge. The zero value means that
// nothing is known: no limit, or Redis is down.
type Quota struct {
	// Limit is how many charges the tightest rule allows in its window.
	Limit int
	// Remaining is how many of them are left.
	Remaining int
	// Reset is the time until some of what was charged is given back.
	Reset time.Duration
}

// Keys under which a fault carries the quota that was hit (see fault.Error.Meta).
const (
	MetaLimit     = "ratelimit-limit"
	MetaRemaining = "ratelimit-remaining"
	MetaReset     = "ratelimit-reset"
)

// Charge counts n against one limit of one caller, unless that would break a
// rule: then nothing is counted, and the error is fault.Exhausted with the time
// to wait. name says what is limited ("pulls"), in the singular sense of a key
// and in the message. While Redis is down everything is allowed.
func (l *Limiter) Charge(ctx context.Context, name, caller string, limit Limit, n int) (Quota, error) {
	if len(limit) == 0 || n == 0 {
		return Quota{}, nil
	}
	if til := l.downTil.Load(); til != 0 && time.Now().UnixNano() < til {
		l.open.Inc()
		return Quota{}, nil
	}
	allowed, q, err := l.spend(ctx, account{name, caller}, limit, n)
	if err != nil {
		return l.letThrough(ctx, err)
	}
	if l.downTil.Load() != 0 && l.downTil.Swap(0) != 0 {
		l.log.Info("Redis answers again; limits are counted")
	}
	if !allowed {
		l.refused.WithLabelValues(name).Inc()
		return q, exhausted(name, caller, q, windowOf(limit, q))
	}
	return q, nil
}

// spend charges n to the slice at hand, or else to Redis, taking a slice where many
// charges come. It waits for a slice that is under way, but once only.
func (l *Limiter) spend(ctx context.Context, who account, limit Limit, n int) (bool, Quota, error) {
	if n < 0 || !limit.sliceable() {
		a, err := l.run(ctx, who, limit, n, trade{})
		return a.allowed, a.Quota, err
	}
	q, fetch, coming := l.stock.spend(who, limit, n, true)
	if coming != nil {
		select {
		case <-coming:
		case <-ctx.Done():
			return false, Quota{}, ctx.Err()
		}
		q, fetch, _ = l.stock.spend(who, limit, n, false)
	}
	if q.Limit != 0 {
		return true, q, nil
	}
	a, err := l.run(ctx, who, limit, n, fetch.trade)
	l.stock.arrived(fetch, a, err)
	a.Remaining += a.slice // which is this caller's still
	return a.allowed, a.Quota, err
}

// trade is what a call of the script gives back and asks for beside its charge. The zero
// value is neither.
type trade struct {
	oldNumber, back  int
	want, nextNumber int
}

// answer is what the script says: where the caller stands, the slice that was taken (0 is
// none), and how long that may be spent or, where none was granted, is not asked for.
type answer struct {
	allowed bool
	Quota
	slice int
	life  time.Duration
}

func (l *Limiter) run(ctx context.Context, who account, limit Limit, n int, t trade) (answer, error) {
	keys, args := l.words(who, limit, n, t)
	out, err := l.script.Run(ctx, l.redis, keys, args...).Int64Slice()
	if err != nil {
		return answer{}, err
	}
	if len(out) != 6 {
		return answer{}, fmt.Errorf("the script answered %d numbers, not 6", len(out))
	}
	return answer{
		allowed: out[0] == 1,
		Quota:   Quota{Limit: int(out[1]), Remaining: int(out[2]), Reset: time.Duration(out[3]) * time.Millisecond},
		slice:   int(out[4]),
		// The script's clock is cut to a millisecond.
		life: time.Duration(out[5]-1) * time.Millisecond,
	}, nil
}

// words are the keys and arguments of the script.
func (l *Limiter) words(who account, limit Limit, n int, t trade) ([]string, []any) {
	keys := make([]string, len(limit))
	args := make([]any, 0, 6+2*len(limit))
	args = append(args, n)
	for i, r := range limit {
		// The braces keep one caller's keys in one slot of a cluster.
		keys[i] = "limit:{" + who.caller + "}:" + who.name + ":" + strconv.FormatInt(r.Window.Milliseconds(), 10)
		// Rounded up: sixty buckets must not be shorter than the window.
		args = append(args, r.Count, (r.Window.Milliseconds()+buckets-1)/buckets)
	}
	if t != (trade{}) {
		args = append(args, l.stock.replica, t.oldNumber, t.back, t.want, t.nextNumber)
	}
	return keys, args
}

func (l *Limiter) letThrough(ctx context.Context, err error) (Quota, error) {
	if ctx.Err() != nil {
		return Quota{}, ctx.Err()
	}
	l.open.Inc()
	if l.downTil.Swap(time.Now().Add(pause).UnixNano()) == 0 {
		l.log.Warn("Redis does not answer; limits are open", "err", err)
	}
	return Quota{}, nil
}

// windowOf is the window of the rule that was broken: the longest, where several allow
// as many.
func windowOf(limit Limit, q Quota) time.Duration {
	var window time.Duration
	for _, r := range limit {
		if r.Count == q.Limit {
			window = max(window, r.Window)
		}
	}
	return window
}

// exhausted names the limit, when to come back, and what raises it. Nobody waits longer
// than the window.
func exhausted(name, caller string, q Quota, window time.Duration) error {
	wait := max(min(q.Reset.Round(time.Second), window), time.Second)
	remedy := ""
	if strings.HasPrefix(caller, "ip:") {
		remedy = "; with an access token the limit is higher"
	}
	e := fault.Exhausted.Newf("Too many %s: the limit is %d in %s; try again in %s%s",
		name, q.Limit, shortDuration(window), shortDuration(wait), remedy).After(wait)
	e.Meta = q.Meta()
	return e
}

// Meta is the quota as numbers in text, reset in seconds, under the Meta… keys;
// nil for the zero value.
func (q Quota) Meta() map[string]string {
	if q.Limit == 0 {
		return nil
	}
	return map[string]string{
		MetaLimit:     strconv.Itoa(q.Limit),
		MetaRemaining: strconv.Itoa(q.Remaining),
		MetaReset:     strconv.Itoa(int((q.Reset + time.Second - 1) / time.Second)),
	}
}
