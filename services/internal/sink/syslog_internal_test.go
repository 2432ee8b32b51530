package sink

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"slipway.dev/services/internal/testkit"
)

func records() []Record {
	at := time.Date(2026, 1, 31, 12, 0, 0, 5000, time.UTC)
	return []Record{
		{Line: []byte(`{"actor":"ada"}`), At: at, ID: "user.create"},
		{Line: []byte(`{"actor":"Zoë 😀"}`), At: at, ID: "a much too long action with spaces, and ünicode", Warning: true},
	}
}

// messages are the records in the format of RFC 5424.
func messages() *regexp.Regexp {
	const start = `^<86>1 2026-01-31T12:00:00\.000005Z \S+ slipwayd \d+ user\.create - \{"actor":"ada"\}\n`
	const second = `<84>1 2026-01-31T12:00:00\.000005Z \S+ slipwayd \d+ amuchtoolongactionwithspaces,and - \{"actor":"Zoë 😀"\}\n$`
	return regexp.MustCompile(start + second)
}

// receive reads frames of octet counting until the sender ends, and returns the messages.
func receive(conn io.Reader) (string, error) {
	in := bufio.NewReader(conn)
	var all strings.Builder
	for {
		length, err := in.ReadString(' ')
		if errors.Is(err, io.EOF) && length == "" {
			return all.String(), nil
		}
		n, err2 := strconv.Atoi(strings.TrimSuffix(length, " "))
		if err := errors.Join(err, err2); err != nil {
			return all.String(), err
		}
		message := make([]byte, n)
		if _, err := io.ReadFull(in, message); err != nil {
			return all.String(), err
		}
		fmt.Fprintf(&all, "%s\n", message)
	}
}

// listen accepts one connection and calls handle with it.
func listen(t *testing.T, handle func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		handle(conn)
		_ = conn.Close()
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr().String()
}

// TestRemote sends records to a receiver that reads all of them.
func TestRemote(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	r := &remote{host: listen(t, func(c net.Conn) {
		text, err := receive(c)
		if err != nil {
			t.Error(err)
		}
		got <- text
	})}
	if n, err := r.Write(t.Context(), records()); n != 2 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	if text := <-got; !messages().MatchString(text) {
		t.Errorf("received %q", text)
	}
}

// TestRemoteTLS does so with TLS, with receivers that close TLS with and without an alert.
func TestRemoteTLS(t *testing.T) {
	t.Parallel()
	web := httptest.NewTLSServer(nil)
	defer web.Close()
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	for _, closes := range []bool{true, false} {
		got := make(chan string, 1)
		handle := func(c net.Conn) {
			secure := tls.Server(c, &tls.Config{Certificates: web.TLS.Certificates})
			text, err := receive(secure)
			if err != nil {
				t.Error(err)
			}
			if closes {
				_ = secure.Close()
			}
			got <- text
		}
		r := &remote{host: listen(t, handle), isTLS: true, anyClose: !closes, tls: &tls.Config{RootCAs: roots}}
		if n, err := r.Write(t.Context(), records()); n != 2 || err != nil {
			t.Fatalf("%v: %d, %v", closes, n, err)
		}
		if text := <-got; !messages().MatchString(text) {
			t.Errorf("received %q", text)
		}
	}
	cut := &remote{host: listen(t, func(c net.Conn) {
		_, _ = receive(tls.Server(c, &tls.Config{Certificates: web.TLS.Certificates}))
	}), isTLS: true, tls: &tls.Config{RootCAs: roots}}
	if n, err := cut.Write(t.Context(), records()); n != 0 || !errors.Is(err, ErrUnconfirmed) || !strings.Contains(err.Error(), "ended TLS without an alert") {
		t.Errorf("an end without an alert: %d, %v", n, err)
	}
	untrusted := &remote{host: listen(t, func(c net.Conn) {
		_ = tls.Server(c, &tls.Config{Certificates: web.TLS.Certificates}).Handshake()
	}), isTLS: true}
	if n, err := untrusted.Write(t.Context(), records()); n != 0 || err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("an untrusted receiver: %d, %v", n, err)
	}
}

// TestRemoteFails checks that records count as written only if the receiver has read all of them.
func TestRemoteFails(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	web, secure := httptest.NewServer(nil), httptest.NewTLSServer(nil)
	defer web.Close()
	defer secure.Close()
	for name, c := range map[string]struct{ host, want string }{
		"no receiver": {closed.Addr().String(), "refused"},
		"a receiver that is killed while it reads": {listen(t, func(c net.Conn) {
			_, _ = io.ReadFull(c, make([]byte, 10))
		}), "the receiver ended the connection before it had read all messages"},
		"a web server":      {web.Listener.Addr().String(), "the receiver sends data"},
		"a receiver of TLS": {secure.Listener.Addr().String(), "the receiver closed the connection"},
		"a server of another protocol": {listen(t, func(c net.Conn) {
			_, _ = c.Write(make([]byte, 1<<17))
			_, _ = io.Copy(io.Discard, c) // a connection with unread data would be reset
		}), "the receiver sends data"},
	} {
		if n, err := (&remote{host: c.host}).Write(t.Context(), records()[:1]); n != 0 || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %d, %v; want %q", name, n, err, c.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	silent := &remote{host: listen(t, func(c net.Conn) {
		_, _ = io.Copy(io.Discard, c)
		cancel()
		_, _ = c.Read(make([]byte, 1)) // returns at once
		<-ctx.Done()
		<-t.Context().Done()
	})}
	if n, err := silent.Write(ctx, records()); n != 0 || !errors.Is(err, ErrUnconfirmed) || !strings.Contains(err.Error(), "did not close the connection") {
		t.Errorf("a receiver that does not close the connection: %d, %v", n, err)
	}
}

// TestLocalRate checks that records are sent no faster than the journal accepts them.
func TestLocalRate(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "log")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	daemon, err := net.ListenPacket("unixgram", filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = daemon.Close() })
	go func() {
		for buf := make([]byte, 1<<10); err == nil; {
			_, _, err = daemon.ReadFrom(buf)
		}
	}()
	target := &local{path: filepath.Join(dir, "log")}
	begin := time.Now()
	for range 5 {
		many := slices.Repeat(records(), 20)
		if n, err := target.Write(t.Context(), many); n != len(many) || err != nil {
			t.Fatal(n, err)
		}
	}
	if took := time.Since(begin); took < 4*40*time.Second/localRate {
		t.Errorf("200 records took %s", took)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if n, err := target.Write(ctx, records()); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %d, %v", n, err)
	}
}

// TestLocal sends records to a real socket for datagrams, which is then deleted.
func TestLocal(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "log") // the path of a socket is limited to 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "log")
	target, err := Parse("syslog:" + path)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := target.Write(t.Context(), records()); n != 0 || err == nil {
		t.Errorf("without a daemon: %d, %v", n, err)
	}
	daemon, err := net.ListenPacket("unixgram", path)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := target.Write(t.Context(), records()); n != 2 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	for _, want := range []string{`^<86>[A-Z][a-z]{2} [ 123]\d \d\d:\d\d:\d\d slipwayd\[\d+\]: \{"actor":"ada"\}$`, `^<84>.*: \{"actor":"Zoë 😀"\}$`} {
		buf := make([]byte, 1<<10)
		n, _, err := daemon.ReadFrom(buf)
		if err != nil || !regexp.MustCompile(want).Match(buf[:n]) {
			t.Errorf("received %q, %v; want %s", buf[:n], err, want)
		}
	}
	// The queue of a daemon that does not read is full after some messages. The written ones are
	// counted.
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	many := make([]Record, 100_000)
	for i := range many {
		many[i] = records()[0]
	}
	written, err := target.Write(ctx, many)
	if written == 0 || written == len(many) || err == nil {
		t.Errorf("a full daemon: %d, %v", written, err)
	}
	if err := Reach(t.Context(), target); err != nil {
		t.Error(err)
	}
	_ = daemon.Close()
	// A program that another test starts has the socket until it is executed.
	testkit.Until(t, "a daemon to be unreachable", func() error {
		if err := Reach(t.Context(), target); err == nil {
			return errors.New("it was reached")
		}
		return nil
	})
}
