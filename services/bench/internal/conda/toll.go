package conda

import (
	"io"
	"net"
	"sync/atomic"

	"slipway.dev/services/bench/internal/must"
)

// toll counts the bytes that are sent to a server through it.
type toll struct {
	addr string
	sent atomic.Int64
	at   net.Listener
}

// newToll listens before a server until it is closed.
func newToll(before string) *toll {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))
	t := &toll{addr: l.Addr().String(), at: l}
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			go t.pass(from, before)
		}
	}()
	return t
}

// pass carries one connection.
func (t *toll) pass(from net.Conn, before string) {
	defer from.Close()
	to, err := net.Dial("tcp", before)
	if err != nil {
		return
	}
	defer to.Close()
	go func() {
		_, _ = io.Copy(to, io.TeeReader(from, t)) // either end of it ends both
		_ = to.Close()
	}()
	_, _ = io.Copy(from, to)
}

// Write counts.
func (t *toll) Write(p []byte) (int, error) {
	t.sent.Add(int64(len(p)))
	return len(p), nil
}
