package ratelimit

import (
	"context"
	"time"
)

// giveBackAtOnce is how many slices are given back in one trip to Redis.
const giveBackAtOnce = 256

// rest is what is left of a slice that is over.
type rest struct {
	who   account
	limit Limit
	trade
}

// Close gives back what is left of all slices, and takes no more. Charges may go on;
// a slice that is under way is lost, like all of them while Redis is down.
func (l *Limiter) Close() {
	l.giveBack(l.stock.close())
}

// sweep gives back what is left of slices that are over and forgets callers who went
// away, then waits for the next time while there are any.
func (l *Limiter) sweep() {
	l.giveBack(l.stock.over(false))
	l.stock.watchOn()
}

// giveBack tells Redis of rests, many in one trip. What fails is lost to the callers
// until the window has passed; the next charge says that Redis is down.
func (l *Limiter) giveBack(rests []rest) {
	ctx, cancel := context.WithTimeout(context.Background(), pause)
	defer cancel()
	for len(rests) > 0 && ctx.Err() == nil {
		some := rests[:min(len(rests), giveBackAtOnce)]
		rests = rests[len(some):]
		pipe := l.redis.Pipeline()
		for _, r := range some {
			keys, args := l.words(r.who, r.limit, 0, r.trade)
			l.script.EvalSha(ctx, pipe, keys, args...)
		}
		_, _ = pipe.Exec(ctx)
	}
}

// over removes the rests of the slices that are over, or of all, from the stock.
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

// watch has the stock swept a while after it got its first account.
func (k *stock) watch() {
	if k.timer == nil && !k.closed {
		k.timer = time.AfterFunc(sliceHold, k.sweep)
	}
}

// watchOn has it swept again, if there is anything in it.
func (k *stock) watchOn() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.timer = nil
	if len(k.held) > 0 {
		k.watch()
	}
}
