package upstream

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"time"
)

// wired is a body with the connection that it comes through, so that the kernel can move
// the rest of it on without a copy (splice). Only plain connections have one.
type wired struct {
	io.ReadCloser
	conn *patientConn
	// empty says that all that was taken from the connection was read.
	empty bool
}

// noteConn lets conn become the connection that a request of the context goes through:
// the last of them, where one is repeated.
func noteConn(ctx context.Context, conn **patientConn) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
		*conn, _ = i.Conn.(*patientConn) // not so behind TLS
	}})
}

// wire gives an answer's body its connection, where it has one that holds nothing else.
func wire(resp *http.Response, conn *patientConn) {
	if conn == nil || resp.ContentLength < 0 || resp.ProtoMajor != 1 {
		return
	}
	if _, ok := conn.Conn.(*net.TCPConn); ok {
		resp.Body = &wired{ReadCloser: resp.Body, conn: conn}
	}
}

// Read implements io.Reader. The transport reads through a bufio.Reader, which goes to the
// connection only when it holds nothing, and at most once: so it holds nothing again when
// as much was taken there as is returned here.
func (b *wired) Read(p []byte) (int, error) {
	before := b.conn.taken.Load()
	n, err := b.ReadCloser.Read(p)
	b.empty = err == nil && n > 0 && b.conn.taken.Load()-before == int64(n)
	return n, err
}

// moveTo has w read from the connection itself. The transport does not learn of it, and
// closes the connection with the body.
func (b *wired) moveTo(w io.Writer, n int64, within time.Duration) (int64, error) {
	if !b.empty {
		return 0, nil
	}
	if err := b.conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		return 0, err
	}
	return io.Copy(w, io.LimitReader(b.conn.Conn, n))
}
