package daemon

import (
	"context"
	"fmt"
	"net"

	"golang.org/x/sys/unix"

	"slipway.dev/services/builder/daemon/step"
)

// sandbox is the network of a child.
type sandbox struct {
	listeners []net.Listener
	forwards  map[net.Listener]string
	proxy     net.Listener
}

func (c *sandbox) close() {
	for _, l := range c.listeners {
		_ = l.Close()
	}
}

// enter moves the thread into a new network, with its loopback up and our listeners on it.
// The result home is the previous network.
func (d *Daemon) enter() (c *sandbox, home int, err error) {
	home, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, -1, err
	}
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return nil, -1, fmt.Errorf("this machine does not allow new network namespaces: %w", err)
	}
	if err := step.LoopbackUp(); err != nil {
		return nil, -1, fmt.Errorf("bringing up the loopback inside: %w", err)
	}
	c = &sandbox{forwards: map[net.Listener]string{}}
	for _, address := range d.o.Forward {
		l, err := c.listen(address)
		if err != nil {
			c.close()
			return nil, -1, err
		}
		c.forwards[l] = address
	}
	// A fixed port, so that it is the same after a restart.
	if c.proxy, err = c.listen("127.0.0.1:3128"); err != nil {
		c.proxy, err = c.listen("127.0.0.1:0")
	}
	if err != nil {
		c.close()
		return nil, -1, err
	}
	return c, home, nil
}

func (c *sandbox) listen(address string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("offering %s to builds: %w", address, err)
	}
	c.listeners = append(c.listeners, l)
	return l, nil
}
