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
)

// The facility and the severities of messages (RFC 5424, section 6.2.1).
const (
	facilityAuthPriv = 10
	severityWarning  = 4
	severityInfo     = 6
)

const appName = "slipwayd"

func (r Record) priority() int {
	if r.Warning {
		return facilityAuthPriv*8 + severityWarning
	}
	return facilityAuthPriv*8 + severityInfo
}

// local sends datagrams to the syslog daemon of this machine.
type local struct{ path string }

// String implements Target.
func (l *local) String() string {
	if l.path == defaultSocket {
		return "syslog:"
	}
	return "syslog:" + l.path
}

// Write implements Target. A written record is in the queue of the daemon.
func (l *local) Write(ctx context.Context, records []Record) (int, error) {
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
		if _, err := conn.Write(r.traditional()); err != nil {
			return i, err
		}
	}
	return len(records), nil
}

func (l *local) reach(ctx context.Context) error {
	_, err := l.Write(ctx, nil)
	return err
}

// traditional returns the message in the format of RFC 3164 for local daemons: the journal of
// systemd does not parse RFC 5424.
func (r Record) traditional() []byte {
	return fmt.Appendf(nil, "<%d>%s %s[%d]: %s", r.priority(), r.At.Local().Format(time.Stamp), appName, os.Getpid(), r.Line) //nolint:gosmopolitan // local daemons expect the local time
}

// remote sends messages over TCP (RFC 6587) or TLS (RFC 5425), in both cases with octet counting.
type remote struct {
	host  string // host:port
	isTLS bool
	// tls is the configuration of TLS; nil trusts the authorities of the system.
	tls *tls.Config
}

// String implements Target.
func (r *remote) String() string {
	if r.isTLS {
		return "syslog+tls://" + r.host
	}
	return "syslog://" + r.host
}

// Write implements Target. Syslog has no acknowledgements. Write therefore ends its side of the
// connection after the last record, and waits until the receiver closes the other side, which it
// does when it has read everything. The system of a receiver that has not resets the connection.
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
	if err := r.send(ctx, conn, records); err != nil {
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
	if err := closeWrite(conn); err != nil {
		return err
	}
	if conn != tcp {
		if err := closeWrite(tcp); err != nil {
			return err
		}
	}
	n, err := io.Copy(io.Discard, io.LimitReader(conn, limits.AuditSinkResponse))
	switch {
	case n == limits.AuditSinkResponse:
		return errors.New("the receiver sends data, which syslog receivers do not")
	case errors.Is(err, io.ErrUnexpectedEOF): // rsyslog ends TLS without a closing alert
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("the receiver did not close the connection, so that it is unknown whether it has read the messages: %w", err)
	}
	return err
}

func (r *remote) handshake(ctx context.Context, tcp net.Conn) (*tls.Conn, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if r.tls != nil {
		c = r.tls.Clone()
	}
	c.ServerName, _, _ = net.SplitHostPort(r.host) // Parse has reported the error
	secure := tls.Client(tcp, c)
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
