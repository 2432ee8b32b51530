package fairshare

import (
	"context"
	"runtime"
	"time"
)

// Turns divides the processors of a process among work that keeps one busy for some
// hundredths of a second or longer. One processor is left for everything else, so that short
// requests never wait for a processor. Make it with NewTurns, once for each process.
type Turns struct{ *Pool }

// freeBytes is the size of input that is processed without a turn, since waiting for one
// could take longer.
const freeBytes = 4 << 10

// NewTurns returns the turns of a process: one at a time for each processor but one. waiting
// and wait are Config.MaxWaiting and Config.MaxWait.
func NewTurns(waiting int, wait time.Duration) Turns {
	return Turns{New(Config{
		Name: "turns of a processor", Capacity: int64(max(1, runtime.GOMAXPROCS(0)-1)), MaxWaiting: waiting, MaxWait: wait,
	})}
}

// Do calls work in a turn of the client, or immediately if its input has at most a few KiB.
// It returns the errors of Pool.Acquire, and that of work. work must not wait for anything,
// in particular not for another turn.
func (t Turns) Do(ctx context.Context, c Client, bytes int, work func() error) error {
	if bytes <= freeBytes {
		return work()
	}
	turn, err := t.Acquire(ctx, Request{Client: c})
	if err != nil {
		return err
	}
	defer turn.Release()
	return work()
}
