package memory

import (
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Shares of the limit above which calls are refused.
const (
	// Busy is for those that take much memory.
	Busy = 0.85
	// Full is for all that can be repeated later.
	Full = 0.95
)

// How often is measured, and how often the garbage is collected for that.
const (
	measureEvery = 50 * time.Millisecond
	collectEvery = time.Second
)

// Guard says how near this process is to its limit. Safe for concurrent use; the zero
// value has no limit.
type Guard struct {
	limit int64
	now   func() time.Time
	used  func() int64

	share   atomic.Int64 // in thousandths
	mu      sync.Mutex
	at      time.Time
	collect time.Time
}

// NewGuard makes one for a limit in bytes; 0 is none.
func NewGuard(limit int64) *Guard {
	return &Guard{limit: limit, now: time.Now, used: used}
}

// Over says whether more than a share of the limit is in use, not counting what the
// garbage collector can give back.
func (g *Guard) Over(share float64) bool {
	if g.limit <= 0 {
		return false
	}
	if g.mu.TryLock() { // whoever measures does it for everybody
		g.measure()
		g.mu.Unlock()
	}
	return g.share.Load() >= int64(share*1000)
}

func (g *Guard) measure() {
	now := g.now()
	if now.Sub(g.at) < measureEvery {
		return
	}
	g.at = now
	n := g.used()
	if float64(n) >= Busy*float64(g.limit) && now.Sub(g.collect) >= collectEvery {
		g.collect = now
		runtime.GC()
		n = g.used()
	}
	g.share.Store(n * 1000 / g.limit)
}

// used is what cannot be given back: the memory of the Go runtime without what is free,
// or what the kernel counts where that is more.
func used() int64 {
	s := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(s)
	free := int64(s[2].Value.Uint64())
	return max(int64(s[0].Value.Uint64()-s[1].Value.Uint64())-free, resident()-free)
}

// resident is what the kernel counts; 0 where it does not say.
func resident() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
