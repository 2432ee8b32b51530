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

// Shares of the limit above which calls are rejected.
const (
	// Busy applies to calls that take much memory.
	Busy = 0.85
	// Full applies to all calls that can be repeated later.
	Full = 0.95
)

// How often memory is measured, and how often garbage is collected for that.
const (
	measureEvery = 50 * time.Millisecond
	collectEvery = time.Second
)

// collectFrom is the number of allocated bytes from which Collect collects garbage. It is more than
// the size of a request body, so that a body that a client announces and does not send causes
// no collection.
const collectFrom = 40 << 20

// Guard reports how near this process is to its limit. It is safe for concurrent use; the
// zero value has no limit.
type Guard struct {
	limit int64
	now   func() time.Time
	used  func() int64

	share   atomic.Int64 // in thousandths
	mu      sync.Mutex
	at      time.Time
	collect time.Time
}

// NewGuard returns a guard for a limit in bytes; 0 means no limit.
func NewGuard(limit int64) *Guard {
	return &Guard{limit: limit, now: time.Now, used: used}
}

// Over reports whether more than a share of the limit is in use, without memory that the
// garbage collector can free.
func (g *Guard) Over(share float64) bool {
	if g.limit <= 0 {
		return false
	}
	if g.mu.TryLock() { // one caller measures for all
		g.measure()
		g.mu.Unlock()
	}
	return g.share.Load() >= int64(share*1000)
}

// Collect collects garbage if more than collectFrom bytes have been allocated since the last
// collection.
func (g *Guard) Collect() {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	if s[0].Value.Uint64() < s[1].Value.Uint64()+collectFrom {
		return
	}
	runtime.GC()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.collect = g.now()
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

// used returns the memory in use, in bytes: that of the Go runtime or, if larger, the resident
// memory of the process, each without the free memory of the heap.
func used() int64 {
	s := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(s)
	free := int64(s[2].Value.Uint64())
	return max(int64(s[0].Value.Uint64()-s[1].Value.Uint64())-free, resident()-free)
}

// resident returns the resident memory of the process in bytes, or 0 if it is unknown.
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
