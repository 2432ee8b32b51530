// Package ratelimit limits the rate of calls with counters in Redis: a sliding window that
// is exact across replicas (gateway/contract/container-service.md#limits). A busy caller's
// charges are counted in slices: several are charged together and then spent in memory. A
// client without a user also counts against the IPv6 networks that it belongs to. The
// package owns the Redis prefix `limit:`.
package ratelimit

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/fault"
)

// buckets is the number of parts of a window. The part that contains the beginning of the
// window counts in full, so a caller may get up to a sixtieth less than the rule allows,
// and never more.
const buckets = 60

//go:embed charge.lua
var chargeScript string

// pause is how long Redis is not used after it failed.
const pause = time.Second

// Limiter charges callers. It is safe for concurrent use.
type Limiter struct {
	redis   redis.UniversalClient
	script  *redis.Script
	log     *slog.Logger
	refused *prometheus.CounterVec
	open    prometheus.Counter
	downTil atomic.Int64 // Unix nanoseconds; 0 while Redis is available
	stock   *stock
	limits  atomic.Pointer[Limits]
	own     atomic.Pointer[Own]
	// known is closed when own is set for the first time.
	known     chan struct{}
	knownOnce sync.Once
}

// New creates a Limiter and registers its metrics. Before SetLimits there are no limits.
func New(client redis.UniversalClient, reg prometheus.Registerer, log *slog.Logger) *Limiter {
	l := &Limiter{
		redis:  client,
		script: redis.NewScript(chargeScript),
		log:    log,
		stock:  newStock(),
		known:  make(chan struct{}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slipway_ratelimit_refused_total", Help: "Calls rejected because a limit was reached, by limit.",
		}, []string{"limit"}),
		open: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "slipway_ratelimit_open_total", Help: "Calls allowed without counting because Redis was unavailable.",
		}),
	}
	l.stock.sweep = l.sweep
	l.SetLimits(nil)
	l.own.Store(&Own{})
	reg.MustRegister(l.refused, l.open)
	return l
}

// Quota is the state of a caller after a charge. The zero value is unknown: there is no
// limit, or Redis is unavailable.
type Quota struct {
	// Limit is how many charges the tightest rule allows in its window.
	Limit int
	// Remaining is how many of them are left.
	Remaining int
	// Reset is the time until some of the charges expire.
	Reset time.Duration
}

// Keys under which a fault carries the quota that was reached (see fault.Error.Meta).
const (
	MetaLimit     = "ratelimit-limit"
	MetaRemaining = "ratelimit-remaining"
	MetaReset     = "ratelimit-reset"
)

// SetLimits replaces the limits. Earlier charges count against the new limits, unless a rule's window
// has changed.
func (l *Limiter) SetLimits(all Limits) { l.limits.Store(&all) }

// LimitOf returns the limit of a client for one kind of call.
func (l *Limiter) LimitOf(k Kind, client fairshare.Client) Limit {
	limits := (*l.limits.Load())[k]
	if client.IsAnonymous() {
		return limits.Anonymous
	}
	return limits.User
}

// ChargeClient charges a client like Charge, against its limit for one kind of call.
func (l *Limiter) ChargeClient(ctx context.Context, k Kind, client fairshare.Client, n int) (Quota, error) {
	return l.Charge(ctx, string(k), client.String(), l.LimitOf(k, client), n)
}

// Charge charges n to one limit of one caller. If that would break a rule, nothing is charged,
// and the error is fault.Exhausted with the time to wait. The argument name names the limited
// calls, e.g. "pulls", for keys and messages. While Redis is unavailable every charge succeeds.
func (l *Limiter) Charge(ctx context.Context, name, caller string, limit Limit, n int) (Quota, error) {
	return l.charge(ctx, account{name, caller}, User, limit, n)
}

// charge charges a limit of a client or, if of is another category, of a subject.
func (l *Limiter) charge(ctx context.Context, who account, of Category, limit Limit, n int) (Quota, error) {
	if len(limit) == 0 || n == 0 {
		return Quota{}, nil
	}
	if l.isDown() {
		l.open.Inc()
		return Quota{}, nil
	}
	a, err := l.spend(ctx, who, limit, n)
	if err != nil {
		return l.admit(ctx, err)
	}
	if l.downTil.Load() != 0 && l.downTil.Swap(0) != 0 {
		l.log.Info("Redis is available again; limits are enforced")
	}
	if !a.allowed {
		l.refused.WithLabelValues(who.name).Inc()
		return a.Quota, exhausted(who, of, a)
	}
	return a.Quota, nil
}

// isDown reports whether Redis has failed within the last pause.
func (l *Limiter) isDown() bool {
	til := l.downTil.Load()
	return til != 0 && time.Now().UnixNano() < til
}

// sliceWaits is how many slices a charge waits for. The first may be too small for all
// charges that wait for it; the next is as large as they need, or as Redis grants.
const sliceWaits = 2

// spend charges n to the current slice, or else to Redis, where it fetches a slice for busy
// callers. It waits for at most sliceWaits slices that are being fetched.
func (l *Limiter) spend(ctx context.Context, who account, limit Limit, n int) (answer, error) {
	if n < 0 || !limit.sliceable() {
		return l.run(ctx, who, limit, n, trade{})
	}
	q, fetch, coming := l.stock.spend(who, limit, n, true)
	for waited := 1; coming != nil; waited++ {
		select {
		case <-coming:
		case <-ctx.Done():
			return answer{}, ctx.Err()
		}
		if l.isDown() { // waiting again would take another timeout
			return answer{}, errDown
		}
		q, fetch, coming = l.stock.spend(who, limit, n, waited < sliceWaits)
	}
	if q.Limit != 0 {
		return answer{allowed: true, Quota: q}, nil
	}
	a, err := l.run(ctx, who, limit, n, fetch.trade)
	if err != nil && ctx.Err() == nil {
		l.failed(err) // before the charges that wait for the slice continue
	}
	l.stock.arrived(fetch, a, err)
	a.Remaining += a.slice // still available to this caller
	return a, err
}

// A trade is the part of a script call that concerns slices: the unused charges of the old
// slice that it returns, and the size of the new slice that it requests. spent is 1 for a charge
// that is not rejected, since it has happened. The zero value does nothing of that.
type trade struct {
	oldNumber, back  int
	want, nextNumber int
	spent            int
}

// answer is the result of the script: the caller's quota, and the size of the fetched slice (0
// for none). life is how long the slice may be spent or, if none was granted, how long none may
// be requested again.
type answer struct {
	allowed bool
	Quota
	slice int
	life  time.Duration
	// window is the window of the tightest rule, and network the key of the network that
	// the rule is for; "" for the caller itself.
	window  time.Duration
	network string
}

func (l *Limiter) run(ctx context.Context, who account, limit Limit, n int, t trade) (answer, error) {
	c := l.counted(who, limit)
	keys, args := l.words(c, n, t)
	out, err := l.script.Run(ctx, l.redis, keys, args...).Int64Slice()
	if err != nil {
		return answer{}, err
	}
	if len(out) != 7 || out[6] < 1 || int(out[6]) > len(c.rules) {
		return answer{}, fmt.Errorf("the script returned %v instead of 7 numbers", out)
	}
	tightest := int(out[6]) - 1
	return answer{
		allowed: out[0] == 1,
		Quota:   Quota{Limit: int(out[1]), Remaining: int(out[2]), Reset: time.Duration(out[3]) * time.Millisecond},
		slice:   int(out[4]),
		// The script's clock is truncated to a millisecond.
		life:   time.Duration(out[5]-1) * time.Millisecond,
		window: c.rules[tightest].Window, network: c.networks[tightest],
	}, nil
}

// words returns the keys and arguments of the script.
func (l *Limiter) words(c charged, n int, t trade) ([]string, []any) {
	args := make([]any, 0, 6+2*len(c.rules))
	args = append(args, n)
	for _, r := range c.rules {
		// Rounded up, since sixty buckets must not be shorter than the window.
		args = append(args, r.Count, (r.Window.Milliseconds()+buckets-1)/buckets)
	}
	if t != (trade{}) {
		args = append(args, c.mark, t.oldNumber, t.back, t.want, t.nextNumber, t.spent)
	}
	return c.keys, args
}

func (l *Limiter) admit(ctx context.Context, err error) (Quota, error) {
	if ctx.Err() != nil {
		return Quota{}, ctx.Err()
	}
	l.open.Inc()
	l.failed(err)
	return Quota{}, nil
}

// errDown is returned to charges that waited for a slice that Redis did not grant, because it failed.
var errDown = errors.New("redis failed while a charge waited for it")

// failed notes that Redis has failed, so that it is not called for a while.
func (l *Limiter) failed(err error) {
	if l.downTil.Swap(time.Now().Add(pause).UnixNano()) == 0 {
		l.log.Warn("Redis is unavailable; limits are not enforced", "err", err)
	}
}

// exhausted returns a fault with the limit, the time to wait, and how to raise the limit.
// The wait is never longer than the window.
func exhausted(who account, of Category, a answer) error {
	wait := max(min(a.Reset.Round(time.Second), a.window), time.Second)
	whose, remedy := of.of(), ""
	if a.network != "" {
		whose = " for the network " + strings.TrimPrefix(a.network, "ip:")
	}
	if strings.HasPrefix(who.caller, "ip:") {
		remedy = "; with an access token the limit is higher"
	}
	e := fault.Exhausted.Newf("Too many %s: the limit%s is %d in %s; try again in %s%s",
		Kind(who.name).noun(), whose, a.Limit, shortDuration(a.window), shortDuration(wait), remedy).After(wait).WithCode(fault.LimitCode(who.name))
	e.Meta = maps.Collect(a.All())
	e.Detail = of.detail()
	return e
}

// noun returns what a limit counts, for messages.
func (k Kind) noun() string {
	if k == BuildMinutes {
		return "minutes of building"
	}
	return string(k)
}

// All returns the quota as decimal strings under the Meta… keys, with the reset in seconds; nothing
// for the zero value.
func (q Quota) All() iter.Seq2[string, string] {
	return func(yield func(key, value string) bool) {
		_ = q.Limit != 0 &&
			yield(MetaLimit, strconv.Itoa(q.Limit)) &&
			yield(MetaRemaining, strconv.Itoa(q.Remaining)) &&
			yield(MetaReset, strconv.Itoa(int((q.Reset+time.Second-1)/time.Second)))
	}
}
