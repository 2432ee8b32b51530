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

// build holds what the steps of one build share.
type build struct {
	parent  string // the parent of their control groups; "" for none
	steps   chan struct{}
	conns   chan struct{}
	limiter *rate.Limiter
	log     *logBudget
}

func newBuild(parent string) *build {
	return &build{
		parent: parent, log: newLogBudget(),
		steps: make(chan struct{}, limits.StepsAtOnce), conns: make(chan struct{}, limits.StepConnections),
		limiter: rate.NewLimiter(limits.StepConnectionsASecond, limits.StepConnectionsAtFirst),
	}
}

// builds holds the running builds by token. It is safe for concurrent use.
type builds struct {
	// remote reports whether remote builders use the daemon. They do not announce a build
	// before its first step.
	remote bool

	mu  sync.Mutex
	all map[string]*build
}

// remoteBuildTTL is how long the steps of a remote builder's build share their limits: longer
// than a build may run.
const remoteBuildTTL = 2 * time.Hour

// add registers a build of a scope and returns its token.
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

// of returns the build of a token; nil if it has ended. If several builds of a scope have a
// step in common, BuildKit runs it once, with the token of the first build. If that build
// has ended before the step began, another build of the scope takes its place. A step
// without a token belongs to a build that did not come from a builder. Only the daemon's
// operator can start such a build: it gets limits of its own and the daemon's group. The
// first use of a remote builder's token, which other clients cannot guess, registers its
// build.
func (b *builds) of(token string) *build {
	if token == "" {
		return newBuild("")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if one := b.all[token]; one != nil {
		return one
	}
	if b.remote {
		one := newBuild("")
		b.all[token] = one
		time.AfterFunc(remoteBuildTTL, func() { b.remove(token) })
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

// counted is a listener that enforces a build's limits on connections: it accepts no more
// until some are closed, and limits their rate.
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

// Accept waits for a connection, and until the limits allow it.
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
	if c.build.limiter.Wait(c.ctx) != nil {
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

// closeAll closes the open connections, including tunnels.
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

// countedConn releases its place when it is closed.
type countedConn struct {
	net.Conn
	of   *counted
	once sync.Once
}

// Close closes the connection.
func (c *countedConn) Close() error {
	c.once.Do(func() {
		c.of.mu.Lock()
		delete(c.of.open, c)
		c.of.mu.Unlock()
		<-c.of.build.conns
	})
	return c.Conn.Close()
}

// CloseWrite closes the writing side.
func (c *countedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}
