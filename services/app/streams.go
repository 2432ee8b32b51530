package app

import (
	"encoding/json"
	"errors"
	"math"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"

	"slipway.dev/gateway"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/rpc"
)

// withStreams bounds the answers that may stay open for hours: logs and events that
// are followed, and large downloads.
func (a *App) withStreams(next http.Handler) http.Handler {
	open := &ratelimit.AtOnce{What: "open logs, event streams and downloads", Each: a.cfg.StreamsClient, All: a.cfg.StreamsTotal}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if gateway.StaysOpen(r.URL.Path) {
			leave, err := open.Enter(rpc.CallFrom(r.Context()).Client())
			if err != nil {
				refuse(w, err)
				return
			}
			defer leave()
		}
		next.ServeHTTP(w, r)
	})
}

// refuse answers that there is too much already, as the REST API does.
func refuse(w http.ResponseWriter, err error) {
	status, message := http.StatusServiceUnavailable, "Try again later"
	if errors.Is(err, fault.Exhausted) {
		status = http.StatusTooManyRequests
	}
	if e, ok := fault.As(err); ok {
		message = e.Public
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(e.RetryAfter.Seconds()))))
	}
	body, err := json.Marshal(map[string]string{"message": message})
	if err != nil {
		return // texts always are JSON
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may be gone
}

// door is a listener that lets each address have only so many connections at a
// time; those beyond are closed at once. Proxies stand for many clients: they may
// have any number.
type door struct {
	net.Listener
	open    *ratelimit.AtOnce
	proxies []netip.Prefix
}

// Accept waits for a connection that may come in.
func (d door) Accept() (net.Conn, error) {
	for {
		c, err := d.Listener.Accept()
		if err != nil {
			return nil, err
		}
		tcp, ok := c.(*net.TCPConn)
		peer, _ := netip.ParseAddrPort(c.RemoteAddr().String()) // its zero value for what has no address
		ip := peer.Addr().Unmap()
		if !ok || !ip.IsValid() || trusted(ip, d.proxies) {
			return c, nil
		}
		leave, err := d.open.Enter(rpc.Call{ClientIP: ip}.Client())
		if err == nil {
			return &counted{TCPConn: tcp, leave: sync.OnceFunc(leave)}, nil
		}
		_ = c.Close()
	}
}

// counted is a connection that is counted until it is closed. All else is as with a
// plain one: the kernel copies files and other connections into it.
type counted struct {
	*net.TCPConn
	leave func()
}

// Close implements net.Conn.
func (c *counted) Close() error {
	defer c.leave()
	return c.TCPConn.Close()
}
