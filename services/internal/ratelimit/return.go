package ratelimit

import (
	"context"
	"time"
)

// returnBatch is how many slices are returned in one request to Redis.
const returnBatch = 256

// rest is the unused part of a slice that has ended.
type rest struct {
	who   account
	limit Limit
	trade
}

// Close returns the unused parts of all slices and fetches no more slices. Charges may
// continue. A slice that is being fetched is lost, and so are all slices while Redis is
// unavailable.
func (l *Limiter) Close() {
	l.returnUnused(l.stock.close())
}

// sweep returns the unused parts of ended slices and forgets inactive callers. It schedules
// itself again unless the stock is empty.
func (l *Limiter) sweep() {
	l.returnUnused(l.stock.over(false))
	l.stock.watchOn()
}

// returnUnused returns unused parts to Redis, many in one request. On failure they are lost to
// the callers until the window has passed; the next charge reports that Redis is
// unavailable.
func (l *Limiter) returnUnused(rests []rest) {
	ctx, cancel := context.WithTimeout(context.Background(), pause)
	defer cancel()
	for len(rests) > 0 && ctx.Err() == nil {
		some := rests[:min(len(rests), returnBatch)]
		rests = rests[len(some):]
		pipe := l.redis.Pipeline()
		for _, r := range some {
			keys, args := l.words(l.counted(r.who, r.limit), 0, r.trade)
			l.script.EvalSha(ctx, pipe, keys, args...)
		}
		_, _ = pipe.Exec(ctx)
	}
}

// over removes the unused parts of ended slices, or of all slices, from the stock.
func (k *stock) over(all bool) []rest {
	k.mu.Lock()
	defer k.mu.Unlock()
	var rests []rest
	now := k.clock()
	for who, s := range k.held {
		if s.coming != nil || now < s.until && !all {
			continue
		}
		if s.left > 0 {
			rests = append(rests, rest{who, s.limit, trade{oldNumber: s.number, back: s.left}})
			s.want = max(s.want/2, s.size-s.left)
			s.size, s.left = 0, 0
		}
		if all || now-s.seen > sliceHold {
			delete(k.held, who)
		}
	}
	return rests
}

func (k *stock) close() []rest {
	k.mu.Lock()
	k.closed = true
	if k.timer != nil {
		k.timer.Stop()
	}
	k.mu.Unlock()
	return k.over(true)
}

// watch schedules a sweep when the stock gets its first account.
func (k *stock) watch() {
	if k.timer == nil && !k.closed {
		k.timer = time.AfterFunc(sliceHold, k.sweep)
	}
}

// watchOn schedules the next sweep, unless the stock is empty.
func (k *stock) watchOn() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.timer = nil
	if len(k.held) > 0 {
		k.watch()
	}
}
