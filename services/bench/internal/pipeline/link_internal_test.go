package pipeline

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"
)

// A link passes all bytes in both directions, counts them, and is not faster than it should be.
func TestLink(t *testing.T) {
	t.Parallel()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	go func() {
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c) // the test compares what it receives
				_ = c.Close()
			}()
		}
	}()
	var l link
	defer func() { _ = l.close() }()
	near, err := net.Dial("tcp", l.to(server.Addr().String()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = near.Close() }()
	sent, began := bytes.Repeat([]byte("0123456789abcdef"), 1<<18), time.Now()
	go func() {
		_, _ = near.Write(sent)
		if c, ok := near.(*net.TCPConn); ok {
			_ = c.CloseWrite()
		}
	}()
	got, err := io.ReadAll(near)
	if err != nil || !bytes.Equal(got, sent) {
		t.Errorf("received %d of %d bytes, %v", len(got), len(sent), err)
	}
	if least := time.Duration(len(sent))*time.Second/linkSpeed + 2*linkDelay; time.Since(began) < least {
		t.Errorf("%d bytes took %s, less than %s", len(sent), time.Since(began), least)
	}
	if in, out := l.received.bytes.Load(), l.sent.bytes.Load(); in != int64(len(sent)) || out != int64(len(sent)) {
		t.Errorf("counted %d bytes received and %d sent", in, out)
	}
}
