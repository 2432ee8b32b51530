package ratelimit

import (
	"sync"
	"time"

	"slipway.dev/services/internal/fault"
)

// AtOnce bounds what is open at a time in this process, for one client and in all.
// Unlike a Limiter it counts nothing across replicas: what it protects is this
// process's memory. Safe for concurrent use.
type AtOnce struct {
	// What is bounded, in the plural, e.g. "open event streams".
	What string
	// Each and All are how many one client, and all together, may have open; 0 is no
	// limit.
	Each, All int

	mu    sync.Mutex
	open  map[string]int
	total int
}

// wait is when to try again: something may have been closed by then.
const wait = 5 * time.Second

// Enter opens one; call leave once, when it is closed. fault.Exhausted when the
// client has too many, fault.Unavailable when this process has.
func (a *AtOnce) Enter(client string) (leave func(), err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.Each > 0 && a.open[client] >= a.Each:
		return nil, fault.Exhausted.Newf("Too many %s from one client: at most %d at a time; close one, or try again later", a.What, a.Each).After(wait)
	case a.All > 0 && a.total >= a.All:
		return nil, fault.Unavailable.Newf("This server has too many %s right now; try again later", a.What).After(wait)
	}
	if a.open == nil {
		a.open = map[string]int{}
	}
	a.open[client]++
	a.total++
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.total--
		if a.open[client]--; a.open[client] == 0 {
			delete(a.open, client)
		}
	}, nil
}
