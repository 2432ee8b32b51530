package sink

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/retry"
)

// The facility and the severities of messages (RFC 5424, section 6.2.1).
const (
	facilityAuthPriv = 10
	severityWarning  = 4
	severityInfo     = 6
)

// probe is how long a receiver must leave the connection open after messages.
const probe = 500 * time.Millisecond

const appName = "slipwayd"

func (r Record) priority() int {
	if r.Warning {
		return facilityAuthPriv*8 + severityWarning
	}
	return facilityAuthPriv*8 + severityInfo
}

// localRate is how many records a second are sent to the daemon of this machine. The journal of
// systemd drops messages, also those of the service's own log, beyond 10,000 in 30 seconds.
const localRate = 200

// local sends datagrams to the syslog daemon of this machine.
type local struct {
	path string
	next time.Time // when the next records may be sent
}

// String implements Target.
func (l *local) String() string {
	if l.path == defaultSocket {
		return "syslog:"
	}
	return "syslog:" + l.path
}

// Write implements Target. A written record is in the queue of the daemon.
func (l *local) Write(ctx context.Context, records []Record) (int, error) {
	if len(records) > 0 && !retry.Sleep(ctx, time.Until(l.next)) {
		return 0, ctx.Err()
	}
	n, err := l.send(ctx, records)
	l.next = time.Now().Add(time.Duration(n) * time.Second / localRate)
	return n, err
}

func (l *local) send(ctx context.Context, records []Record) (int, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unixgram", l.path)
	if errors.Is(err, syscall.EPROTOTYPE) {
		err = fmt.Errorf("%s is no socket for datagrams: %w", l.path, err)
	}
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }() // every record was sent or has its error
	defer abortAfter(ctx, conn)()
	for i, r := range records {
		if _, err := conn.Write(r.rfc3164()); err != nil {
			return i, err
		}
	}
	return len(records), nil
}

func (l *local) reach(ctx context.Context) error {
	_, err := l.send(ctx, nil)
	return err
}

// rfc3164 returns the message in the format of RFC 3164 for local daemons: the journal of
// systemd does not parse RFC 5424.
func (r Record) rfc3164() []byte {
	return fmt.Appendf(nil, "<%d>%s %s[%d]: %s", r.priority(), r.At.Local().Format(time.Stamp), appName, os.Getpid(), r.Line) //nolint:gosmopolitan // local daemons expect the local time
}

// remote sends messages over TCP (RFC 6587) or TLS (RFC 5425), in both cases with octet counting.
type remote struct {
	host  string // host:port
	isTLS bool
	// anyClose accepts a receiver that ends TLS without an alert. A machine between could then drop
	// messages, and end the connection in the name of the receiver.
	anyClose bool
	// tls is the configuration of TLS; nil trusts the authorities of the system.
	tls *tls.Config
}

// String implements Target.
func (r *remote) String() string {
	switch {
	case r.anyClose:
		return "syslog+tls://" + r.host + closeAny
	case r.isTLS:
		return "syslog+tls://" + r.host
	}
	return "syslog://" + r.host
}

// Write implements Target. Syslog has no acknowledgements. Write therefore ends its side of the
// connection after the last record, and waits until the receiver closes the other side, which it
// does when it has read everything. A receiver that ends before resets or closes the connection.
func (r *remote) Write(ctx context.Context, records []Record) (int, error) {
	if len(records) == 0 {
		return 0, nil
	}
	if err := r.connect(ctx, records); err != nil {
		return 0, err
	}
	return len(records), nil
}

func (r *remote) reach(ctx context.Context) error {
	return r.connect(ctx, nil)
}

// connect sends records through a new connection.
func (r *remote) connect(ctx context.Context, records []Record) error {
	d := net.Dialer{Timeout: limits.AuditSinkConnect}
	conn, err := d.DialContext(ctx, "tcp", r.host)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // the receiver has closed it, or the records are repeated
	defer abortAfter(ctx, conn)()
	err = r.send(ctx, conn, records)
	// The system reports a reset as any of these errors, and each reset only once.
	if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ENOTCONN) {
		err = fmt.Errorf("the receiver ended the connection before it had read all messages: %w", err)
	}
	if err != nil {
		// The receiver must not read messages after those of the next connection.
		if c, ok := conn.(*net.TCPConn); ok {
			_ = c.SetLinger(0) // only fails if the connection is closed
		}
		return fmt.Errorf("%s: %w", r, err)
	}
	return nil
}

func (r *remote) send(ctx context.Context, tcp net.Conn, records []Record) error {
	conn := tcp
	if r.isTLS {
		secure, err := r.handshake(ctx, tcp)
		if err != nil {
			return err
		}
		conn = secure
	}
	var frames bytes.Buffer
	host, _ := os.Hostname() // the header then has no host
	for _, rec := range records {
		m := rec.header(host)
		fmt.Fprintf(&frames, "%d %s%s", len(m)+len(rec.Line), m, rec.Line)
	}
	if _, err := conn.Write(frames.Bytes()); err != nil {
		return err
	}
	if len(records) > 0 {
		if err := r.staysOpen(ctx, conn); err != nil {
			return err
		}
	}
	if err := closeWrite(conn); err != nil {
		return err
	}
	if conn != tcp {
		if err := closeWrite(tcp); err != nil {
			return err
		}
	}
	return r.awaitClose(conn)
}

// errCut is returned by a connection of TLS that ends without an alert.
var errCut = errors.New("it ended TLS without an alert, as another machine could do")

// A cutConn returns errCut instead of io.EOF, so that tls.Conn returns io.EOF for an alert only.
type cutConn struct{ net.Conn }

// Read implements net.Conn.
func (c cutConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if errors.Is(err, io.EOF) {
		err = errCut
	}
	return n, err
}

// staysOpen returns an error if the receiver closes the connection before the sender has ended
// its side, as servers of other protocols, and proxies without a server, do.
func (r *remote) staysOpen(ctx context.Context, conn net.Conn) error {
	_ = conn.SetReadDeadline(time.Now().Add(probe)) // only fails if the connection is closed
	err := read(conn)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	_ = conn.SetReadDeadline(time.Now().Add(limits.AuditSinkTime - probe))
	return ctx.Err()
}

// awaitClose waits until the receiver closes the connection.
func (r *remote) awaitClose(conn net.Conn) error {
	err := read(conn)
	switch {
	case errors.Is(err, errClosed), errors.Is(err, errCut) && r.anyClose:
		return nil
	case errors.Is(err, errCut):
		return fmt.Errorf("%w: %w; if the receiver never sends one (rsyslog with gtls), add %s to audit_sink", ErrUnconfirmed, err, closeAny)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("%w: the receiver did not close the connection: %w", ErrUnconfirmed, err)
	}
	return err
}

// errClosed is returned when the receiver closes the connection.
var errClosed = errors.New("the receiver closed the connection, so that it is no receiver of syslog, or not of this kind (syslog, syslog+tls)")

// read waits until the receiver closes the connection. A receiver that sends data is a server of
// another protocol.
func read(conn net.Conn) error {
	n, err := conn.Read(make([]byte, 1))
	if n > 0 {
		return errors.New("the receiver sends data, which syslog receivers do not")
	}
	if errors.Is(err, io.EOF) {
		return errClosed
	}
	return err
}

func (r *remote) handshake(ctx context.Context, tcp net.Conn) (*tls.Conn, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if r.tls != nil {
		c = r.tls.Clone()
	}
	c.ServerName, _, _ = net.SplitHostPort(r.host) // Parse has reported the error
	secure := tls.Client(cutConn{tcp}, c)
	return secure, secure.HandshakeContext(ctx)
}

func closeWrite(conn net.Conn) error {
	if c, ok := conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return nil
}

// header returns the header of RFC 5424, section 6, with the space before the message.
func (r Record) header(host string) string {
	return fmt.Sprintf("<%d>1 %s %s %s %s %s - ", r.priority(), r.At.UTC().Format("2006-01-02T15:04:05.000000Z"),
		printable(host, 255), appName, strconv.Itoa(os.Getpid()), printable(r.ID, 32))
}

// printable returns the printable ASCII characters of s, at most count, or "-" if s has none.
func printable(s string, count int) string {
	s = strings.Map(func(c rune) rune {
		if c < '!' || c > '~' {
			return -1
		}
		return c
	}, s)
	if s == "" {
		return "-"
	}
	return s[:min(len(s), count)]
}

// abortAfter ends the use of a connection when ctx is done, or a Write takes
// limits.AuditSinkTime. The returned function ends this.
func abortAfter(ctx context.Context, conn net.Conn) func() {
	_ = conn.SetDeadline(time.Now().Add(limits.AuditSinkTime)) // only fails if the connection is closed
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	return func() { stop() }
}
