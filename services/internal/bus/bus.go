// Package bus connects to NATS by URL. It knows nothing of what is said there;
// each room owns its subjects.
package bus

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"github.com/nats-io/nats.go"
)

// Connect joins the servers at a `nats://…` URL (several, with commas). It does
// not wait for them: it keeps trying for as long as the process runs, and what
// is published meanwhile waits in a buffer. The caller closes the connection.
func Connect(url string, log *slog.Logger) (*nats.Conn, error) {
	return connect(url, log, nats.RetryOnFailedConnect(true))
}

// Local joins a server in this process.
func Local(server nats.InProcessConnProvider, log *slog.Logger) (*nats.Conn, error) {
	return connect("", log, nats.InProcessServer(server))
}

func connect(address string, log *slog.Logger, how nats.Option) (*nats.Conn, error) {
	nc, err := nats.Connect(address, how,
		nats.Name("slipwayd"),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(250*time.Millisecond),
		nats.Timeout(2*time.Second),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("NATS connection lost; trying again", "err", err)
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) { log.Info("NATS connection is back") }),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			if sub == nil { // it is about the connection
				log.Warn("NATS connection in trouble", "err", err)
				return
			}
			log.Warn("NATS subscription fell behind", "subject", sub.Subject, "err", err)
		}),
	)
	if errors.As(err, new(*url.Error)) { // it quotes the URL, with its password
		return nil, errors.New("nats_url is malformed; in a user name or password, % # / ? @ and the like must be URL-encoded")
	}
	if err != nil {
		return nil, fmt.Errorf("connecting to NATS: %w", err)
	}
	return nc, nil
}
