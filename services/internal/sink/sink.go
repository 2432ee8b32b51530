// Package sink writes records, such as the events of an audit trail, to a file or to a syslog
// receiver. It stores no position: the caller repeats the records that were not written.
package sink

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A Record is one line of a sink.
type Record struct {
	// Line is the text, without a line break. Files contain it alone.
	Line []byte
	// At is the time of the event, and ID its category; syslog has both in its header.
	At time.Time
	ID string
	// Warning selects the severity of syslog: warning instead of informational.
	Warning bool
}

// A Target is where records are written. It is not safe for concurrent use.
type Target interface {
	// Write writes records in their order, and returns how many were written. If it returns an
	// error, further ones may have been written, too.
	Write(ctx context.Context, records []Record) (int, error)
	// String returns the address, as Parse accepts it.
	fmt.Stringer
}

// ErrUnconfirmed is returned by Write if the receiver has got records, but it is unknown whether it
// has accepted them. Each repetition may write them again.
var ErrUnconfirmed = errors.New("it is unknown whether the receiver has accepted the messages")

// Reach returns an error if a syslog receiver cannot be reached. It sends no message. It returns
// nil for a file.
func Reach(ctx context.Context, t Target) error {
	if r, ok := t.(interface {
		reach(ctx context.Context) error
	}); ok {
		return r.reach(ctx)
	}
	return nil
}

const forms = "an absolute path of a file, syslog:, syslog:/PATH/OF/SOCKET, syslog://HOST:PORT, syslog+tls://HOST:PORT or syslog+tls://HOST:PORT?close=any"

// closeAny follows the address of a receiver that ends TLS without an alert.
const closeAny = "?close=any"

// defaultSocket is where the syslog daemon of a machine listens.
const defaultSocket = "/dev/log"

// Parse returns the target with an address. It opens nothing.
func Parse(address string) (Target, error) {
	if filepath.IsAbs(address) && filepath.Clean(address) != "/" && !strings.HasSuffix(address, "/") && !strings.ContainsRune(address, 0) {
		return newFile(filepath.Clean(address)), nil
	}
	scheme, rest, found := strings.Cut(address, ":")
	host, isURL := strings.CutPrefix(rest, "//")
	switch {
	case scheme == "syslog" && found && rest == "":
		return &local{path: defaultSocket}, nil
	case scheme == "syslog" && !isURL && filepath.IsAbs(rest) && !strings.ContainsRune(rest, 0):
		return &local{path: filepath.Clean(rest)}, nil
	case isURL && (scheme == "syslog" || scheme == "syslog+tls"):
		isTLS := scheme == "syslog+tls"
		anyClose := false
		if isTLS {
			host, anyClose = strings.CutSuffix(host, closeAny)
		}
		if err := checkHost(host); err != nil {
			return nil, fmt.Errorf("must be %s://HOST:PORT, not %q: %w", scheme, address, err)
		}
		return &remote{host: host, isTLS: isTLS, anyClose: anyClose}, nil
	}
	return nil, fmt.Errorf("must be %s, not %q", forms, address)
}

func checkHost(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if host == "" || strings.ContainsAny(host, "/@?# \t\r\n\x00") {
		return errors.New("the host is invalid")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return errors.New("the port is not a number up to 65535")
	}
	return nil
}
