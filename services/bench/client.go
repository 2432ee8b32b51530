package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// call is a request whose bytes are made once and sent many times.
type call struct {
	raw []byte
	// request is what http.ReadResponse has to know: HEAD has no body.
	request *http.Request
	// want is the only good status.
	want int
}

// manifestTypes is what engines accept.
const manifestTypes = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, " +
	"application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.docker.distribution.manifest.v2+json"

// ask is a request without a body.
func ask(method, host, path string) call {
	return call{
		raw: fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench\r\nAccept: %s\r\n\r\n",
			method, path, host, manifestTypes),
		request: &http.Request{Method: method},
		want:    http.StatusOK,
	}
}

// post is a request with a JSON body.
func post(host, path, body string) call {
	return call{
		raw: fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			path, host, len(body), body),
		request: &http.Request{Method: http.MethodPost},
		want:    http.StatusOK,
	}
}

// conn is one keep-alive connection, used by one goroutine at a time. It leaves
// out what http.Transport does beside the protocol (two goroutines and a pool),
// since the load shares its processors with the server.
type conn struct {
	net.Conn
	r   *bufio.Reader
	buf []byte
	// release stops watching the context.
	release func() bool
}

// dial connects; when ctx ends, so does whatever the connection is doing.
func dial(ctx context.Context, host string) (*conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", host)
	if err != nil {
		return nil, err
	}
	release := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	return &conn{Conn: c, r: bufio.NewReaderSize(c, 4<<10), buf: make([]byte, 128<<10), release: release}, nil
}

// hangUp closes the connection.
func (c *conn) hangUp() {
	c.release()
	_ = c.Close() // nothing is under way
}

// do sends a call and reads the whole answer into sink (nil: nowhere).
func (c *conn) do(k call, sink io.Writer) (http.Header, int64, error) {
	if _, err := c.Write(k.raw); err != nil {
		return nil, 0, err
	}
	resp, err := http.ReadResponse(c.r, k.request)
	if err != nil {
		return nil, 0, err
	}
	if resp.StatusCode != k.want {
		return nil, 0, refused(resp, k)
	}
	n, err := c.drain(resp.Body, sink)
	if err == nil && k.request.Method != http.MethodHead && resp.ContentLength >= 0 && n != resp.ContentLength {
		err = io.ErrUnexpectedEOF
	}
	return resp.Header, n, err
}

func (c *conn) drain(body io.Reader, sink io.Writer) (n int64, err error) {
	for {
		m, err := body.Read(c.buf)
		n += int64(m)
		if sink != nil && m > 0 {
			if _, err := sink.Write(c.buf[:m]); err != nil {
				return n, err
			}
		}
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

func refused(resp *http.Response, k call) error {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 500)) // the status says enough
	line, _, _ := strings.Cut(string(k.raw), "\r\n")
	return fmt.Errorf("%s: %s %s", line, resp.Status, text)
}

// once makes a single call on a connection of its own.
func once(ctx context.Context, host string, k call, sink io.Writer) (http.Header, error) {
	c, err := dial(ctx, host)
	if err != nil {
		return nil, err
	}
	defer c.hangUp()
	header, _, err := c.do(k, sink)
	return header, err
}
