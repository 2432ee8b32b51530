package upstream

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"time"
)

// A wiredBody is a body with its connection, from which the kernel can move data without a
// copy (splice). Only connections without TLS have one.
type wiredBody struct {
	io.ReadCloser
	conn *stallConn
	// empty states that all data read from the connection was returned by Read.
	empty bool
}

// noteConn stores the connection of a request with the returned context in conn. If the request
// is repeated, conn is the connection of the last attempt.
func noteConn(ctx context.Context, conn **stallConn) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
		*conn, _ = i.Conn.(*stallConn) // nil with TLS
	}})
}

// wire replaces the body of a response by a wiredBody if the kernel can move data from its
// connection.
func wire(resp *http.Response, conn *stallConn) {
	if conn == nil || resp.ContentLength < 0 || resp.ProtoMajor != 1 {
		return
	}
	if _, ok := conn.Conn.(*net.TCPConn); ok {
		resp.Body = &wiredBody{ReadCloser: resp.Body, conn: conn}
	}
}

// Read implements io.Reader. The transport reads through a bufio.Reader, which reads from the
// connection at most once, and only if its buffer is empty. The buffer is therefore empty again
// if Read returns as many bytes as were read from the connection.
func (b *wiredBody) Read(p []byte) (int, error) {
	before := b.conn.received.Load()
	n, err := b.ReadCloser.Read(p)
	b.empty = err == nil && n > 0 && b.conn.received.Load()-before == int64(n)
	return n, err
}

// moveTo copies data from the connection to w. The transport is not aware of that and
// closes the connection with the body.
func (b *wiredBody) moveTo(w io.Writer, n int64, within time.Duration) (int64, error) {
	if !b.empty {
		return 0, nil
	}
	if err := b.conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		return 0, nil //nolint:nilerr // the transport has closed a broken connection: Read returns its error
	}
	return io.Copy(w, io.LimitReader(b.conn.Conn, n))
}
