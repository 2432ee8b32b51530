package app

import (
	"net"
	"net/http"
	"net/netip"

	"slipway.dev/gateway"

	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/rpc"
)

// withStreams limits the responses that may stay open for hours: followed logs and events,
// and large downloads.
func (a *App) withStreams(next http.Handler) http.Handler {
	open := fairshare.New(fairshare.Config{
		Name: "open streams and downloads", Capacity: int64(a.cfg.StreamsTotal), PerClient: int64(a.cfg.StreamsClient),
	})
	a.reg.MustRegister(open)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if gateway.StaysOpen(r.URL.Path) {
			stream, err := open.TryAcquire(fairshare.Request{Client: rpc.CallFrom(r.Context()).Address()})
			if err != nil {
				refuse(w, r, err)
				return
			}
			defer stream.Release()
		}
		next.ServeHTTP(w, r)
	})
}

// limitedListener is a listener that limits the concurrent connections of each address and closes
// further ones. Proxies connect on behalf of many clients and have no limit.
type limitedListener struct {
	net.Listener
	open    *fairshare.Pool
	proxies []netip.Prefix
}

// Accept waits for a connection that is allowed.
func (d limitedListener) Accept() (net.Conn, error) {
	for {
		c, err := d.Listener.Accept()
		if err != nil {
			return nil, err
		}
		tcp, ok := c.(*net.TCPConn)
		peer, _ := netip.ParseAddrPort(c.RemoteAddr().String()) // the zero value for connections without an address
		ip := peer.Addr().Unmap()
		if !ok || !ip.IsValid() || trusted(ip, d.proxies) {
			return c, nil
		}
		place, err := d.open.TryAcquire(fairshare.Request{Client: fairshare.Address(ip)})
		if err == nil {
			return &counted{tcp, place}, nil
		}
		_ = c.Close()
	}
}

// counted is a connection that is counted until it is closed. It embeds net.TCPConn, so that
// the kernel still copies files and other connections into it.
type counted struct {
	*net.TCPConn
	place *fairshare.Lease
}

// Close implements net.Conn.
func (c *counted) Close() error {
	defer c.place.Release()
	return c.TCPConn.Close()
}
