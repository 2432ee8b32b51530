package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"time"

	"slipway.dev/services/internal/fault"
)

// serve serves the sandbox's listeners until they are closed.
func (d *Daemon) serve(c *sandbox) {
	for l, address := range c.forwards {
		go forward(l, address)
	}
	go func() { _ = proxyServer(newProxy(d.o.Egress)).Serve(c.proxy) }()
}

// forward forwards connections to the same address on this machine.
func forward(l net.Listener, address string) {
	dialer := net.Dialer{Timeout: 10 * time.Second}
	for {
		in, err := l.Accept()
		if err != nil {
			if !waitTemporary(err) {
				return
			}
			continue
		}
		go func() {
			out, err := dialer.DialContext(context.Background(), "tcp", address)
			if err != nil {
				_ = in.Close()
				return
			}
			splice(in, out)
		}()
	}
}

// splice copies in both directions until both sides are done, and closes them.
func splice(a, b net.Conn) {
	var wg sync.WaitGroup
	one := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		if half, ok := to.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
			return
		}
		_ = to.Close()
	}
	wg.Go(func() { one(a, b) })
	wg.Go(func() { one(b, a) })
	wg.Wait()
	_ = a.Close()
	_ = b.Close()
}

type dial = func(ctx context.Context, network, address string) (net.Conn, error)

// proxy is an HTTP proxy: it tunnels (CONNECT) and forwards plain requests.
type proxy struct {
	dial  dial
	plain *httputil.ReverseProxy
}

func newProxy(to dial) *proxy {
	return &proxy{dial: to, plain: &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL, r.Out.Host = r.In.URL, r.In.Host
			r.Out.Header.Del("Proxy-Authorization")
		},
		Transport: &http.Transport{
			DialContext: to, Proxy: nil, DisableCompression: true,
			ResponseHeaderTimeout: 2 * time.Minute, IdleConnTimeout: 30 * time.Second,
		},
		FlushInterval: -1,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, err error) { refuse(w, err) },
	}}
}

// close closes idle connections.
func (p *proxy) close() { p.plain.Transport.(*http.Transport).CloseIdleConnections() } //nolint:forcetypeassert // newProxy's

// ServeHTTP handles a request to the proxy.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodConnect:
		p.tunnel(w, r)
	case r.URL.IsAbs() && r.URL.Scheme == "http":
		p.plain.ServeHTTP(w, r)
	default:
		http.Error(w, "this is a proxy", http.StatusBadRequest)
	}
}

func (p *proxy) tunnel(w http.ResponseWriter, r *http.Request) {
	out, err := p.dial(r.Context(), "tcp", r.Host)
	if err != nil {
		refuseTunnel(w, err)
		return
	}
	in, rest, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = out.Close()
		return
	}
	_, _ = in.Write([]byte("HTTP/1.1 200 Connection established\r\n\r\n"))
	if n := rest.Reader.Buffered(); n > 0 { // sent before our response
		early, _ := rest.Reader.Peek(n)
		_, _ = out.Write(early)
	}
	splice(in, out)
}

// refuse responds with the reason why there is no connection.
func refuse(w http.ResponseWriter, err error) {
	if f := new(fault.Error); errors.As(err, &f) {
		http.Error(w, f.Public, http.StatusForbidden)
		return
	}
	http.Error(w, "the server cannot be reached", http.StatusBadGateway)
}

// refuseTunnel responds to a CONNECT like refuse, with the reason in the status line: clients
// such as BuildKit and curl report this line only, and "Forbidden" does not name a setting.
func refuseTunnel(w http.ResponseWriter, err error) {
	f := new(fault.Error)
	if !errors.As(err, &f) {
		refuse(w, err)
		return
	}
	conn, _, hijacked := http.NewResponseController(w).Hijack()
	if hijacked != nil {
		refuse(w, err)
		return
	}
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 %d %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", http.StatusForbidden, reasonPhrase(f.Public))
	_ = conn.Close()
}

// reasonPhrase returns text as it may stand in a status line (RFC 9112, 4): printable ASCII
// on one line, of bounded length.
func reasonPhrase(text string) string {
	if len(text) > maxReason {
		text = text[:maxReason]
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text)
}

// maxReason bounds a reason phrase in bytes. Names of hosts have at most 253.
const maxReason = 512
