package pipeline

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"slipway.dev/services/bench/internal/must"
)

// The properties of the link of a node.
const (
	linkSpeed = 125_000_000            // bytes a second in each direction: 1 Gbit/s
	linkDelay = 500 * time.Microsecond // in each direction
)

// A link passes the connections of a node to servers. All of them share its speed.
type link struct {
	received, sent lane
	listeners      []net.Listener
	open           sync.WaitGroup
}

// A lane is one direction of a link.
type lane struct {
	lock  sync.Mutex
	free  time.Time // when it has sent what it was given
	bytes atomic.Int64
}

// arrival returns when n more bytes arrive.
func (l *lane) arrival(n int) time.Time {
	l.bytes.Add(int64(n))
	l.lock.Lock()
	defer l.lock.Unlock()
	if now := time.Now(); l.free.Before(now) {
		l.free = now
	}
	l.free = l.free.Add(time.Duration(n) * time.Second / linkSpeed)
	return l.free.Add(linkDelay)
}

// to returns an address of the link that leads to a server, host:port.
func (l *link) to(server string) string {
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))
	l.listeners = append(l.listeners, listener)
	l.open.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			l.open.Go(func() { l.pass(near, server) })
		}
	})
	return listener.Addr().String()
}

// pass passes a connection until one side has closed it.
func (l *link) pass(near net.Conn, server string) {
	defer near.Close()
	far, err := new(net.Dialer).DialContext(context.Background(), "tcp", server)
	if err != nil {
		return // the node sees that it is closed
	}
	defer far.Close()
	var both sync.WaitGroup
	both.Go(func() { l.sent.carry(far, near) })
	both.Go(func() { l.received.carry(near, far) })
	both.Wait()
}

// A parcel is what arrives at a time.
type parcel struct {
	bytes []byte
	at    time.Time
}

// carry copies what is read from one connection to the other, with the delay and speed of the lane.
func (l *lane) carry(to, from net.Conn) {
	way := make(chan parcel, 16)
	var reader sync.WaitGroup
	reader.Go(func() {
		defer close(way)
		for {
			piece := make([]byte, 64<<10)
			n, err := from.Read(piece)
			if n > 0 {
				way <- parcel{piece[:n], l.arrival(n)}
			}
			if err != nil {
				return
			}
		}
	})
	var err error
	for p := range way {
		time.Sleep(time.Until(p.at))
		if err == nil {
			_, err = to.Write(p.bytes)
		}
		if err != nil {
			_ = from.Close() // so that its sender notices
		}
	}
	reader.Wait()
	if c, ok := to.(interface{ CloseWrite() error }); ok {
		_ = c.CloseWrite()
	}
}

// close ends all connections.
func (l *link) close() error {
	var problems []error
	for _, listener := range l.listeners {
		problems = append(problems, listener.Close())
	}
	return errors.Join(problems...)
}
