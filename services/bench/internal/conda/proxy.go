package conda

import (
	"io"
	"net"
	"sync/atomic"

	"slipway.dev/services/bench/internal/must"
)

// A countingProxy is a proxy that counts the bytes sent to a server.
type countingProxy struct {
	addr string
	sent atomic.Int64
	at   net.Listener
}

// newCountingProxy starts a proxy for the server at the address before. It ends when at is closed.
func newCountingProxy(before string) *countingProxy {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))
	t := &countingProxy{addr: l.Addr().String(), at: l}
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

// pass forwards one connection.
func (t *countingProxy) pass(from net.Conn, before string) {
	defer from.Close()
	to, err := net.Dial("tcp", before)
	if err != nil {
		return
	}
	defer to.Close()
	go func() {
		_, _ = io.Copy(to, io.TeeReader(from, t)) // the end of one direction ends both
		_ = to.Close()
	}()
	_, _ = io.Copy(from, to)
}

// Write counts bytes.
func (t *countingProxy) Write(p []byte) (int, error) {
	t.sent.Add(int64(len(p)))
	return len(p), nil
}
