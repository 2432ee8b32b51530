package daemon

import (
	"context"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"slipway.dev/services/builder/daemon/step"
	"slipway.dev/services/internal/limits"
)

// build is what the steps of one build share.
type build struct {
	parent string // the control group that theirs are made in; "" makes none
	steps  chan struct{}
	conns  chan struct{}
	pace   *rate.Limiter
	log    *logBudget
}

func newBuild(parent string) *build {
	return &build{
		parent: parent, log: newLogBudget(),
		steps: make(chan struct{}, limits.StepsAtOnce), conns: make(chan struct{}, limits.StepConnections),
		pace: rate.NewLimiter(limits.StepConnectionsASecond, limits.StepConnectionsAtFirst),
	}
}

// builds are those that are under way, by their tokens. Safe for concurrent use.
type builds struct {
	// guests: builders elsewhere, who say nothing of a build before its first step,
	// share the daemon.
	guests bool

	mu  sync.Mutex
	all map[string]*build
}

// guestStays is how long the steps of a guest's build share their bounds: longer
// than a build may take.
const guestStays = 2 * time.Hour

// add gives a build of a scope a token.
func (b *builds) add(scope string, one *build) (token string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	token = step.NewToken(scope)
	b.all[token] = one
	return token
}

func (b *builds) remove(token string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.all, token)
}

// of returns the build of a token; nil where there is none. BuildKit makes a step
// that several builds of a scope have in common once, with the token of the first:
// when that has ended before its step began, another build of the scope stands in.
// A step without a token is of a build that came to the daemon by another way, as
// only its operator's can: it has bounds of its own, and the daemon's group. A guest's
// token, which nobody else can guess, begins a build.
func (b *builds) of(token string) *build {
	if token == "" {
		return newBuild("")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if one := b.all[token]; one != nil {
		return one
	}
	if b.guests {
		one := newBuild("")
		b.all[token] = one
		time.AfterFunc(guestStays, func() { b.remove(token) })
		return one
	}
	scope, _, ok := strings.Cut(token, ".")
	if !ok {
		return nil
	}
	for other, one := range b.all {
		if strings.HasPrefix(other, scope+".") {
			return one
		}
	}
	return nil
}

// counted is a listener that keeps to what a build may open: it accepts no more
// until some have ended, and not too fast.
type counted struct {
	net.Listener
	build *build
	ctx   context.Context //nolint:containedctx // Accept has none; it ends with the step

	mu   sync.Mutex
	open map[*countedConn]bool
}

func newCounted(ctx context.Context, l net.Listener, b *build) *counted {
	return &counted{Listener: l, build: b, ctx: ctx, open: map[*countedConn]bool{}}
}

// Accept waits for a connection, and for room for it.
func (c *counted) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	select {
	case c.build.conns <- struct{}{}:
	case <-c.ctx.Done():
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	if c.build.pace.Wait(c.ctx) != nil {
		<-c.build.conns
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	out := &countedConn{Conn: conn, of: c}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[out] = true
	return out, nil
}

// closeAll closes what is open, tunnels too.
func (c *counted) closeAll() {
	c.mu.Lock()
	var all []net.Conn
	for conn := range c.open {
		all = append(all, conn)
	}
	c.mu.Unlock()
	for _, conn := range all {
		_ = conn.Close()
	}
}

// countedConn gives its place back when it is closed.
type countedConn struct {
	net.Conn
	of   *counted
	once sync.Once
}

// Close closes it.
func (c *countedConn) Close() error {
	c.once.Do(func() {
		c.of.mu.Lock()
		delete(c.of.open, c)
		c.of.mu.Unlock()
		<-c.of.build.conns
	})
	return c.Conn.Close()
}

// CloseWrite says that nothing more is sent.
func (c *countedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}
