// Package bus connects to NATS by URL and publishes and consumes messages with their
// traces. Each service owns its subjects, which this package does not know.
package bus

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"github.com/nats-io/nats.go"
)

// Connect connects to the servers of a `nats://…` URL, or of several, separated by commas.
// It does not wait for a server. It retries for as long as the process runs, and buffers
// messages that are published in the meantime. The caller must close the connection.
func Connect(url string, log *slog.Logger) (*nats.Conn, error) {
	return connect(url, log, nats.RetryOnFailedConnect(true))
}

// Local connects to a server in this process.
func Local(server nats.InProcessConnProvider, log *slog.Logger) (*nats.Conn, error) {
	return connect("", log, nats.InProcessServer(server))
}

func connect(address string, log *slog.Logger, option nats.Option) (*nats.Conn, error) {
	nc, err := nats.Connect(address, option,
		nats.Name("slipwayd"),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(250*time.Millisecond),
		nats.Timeout(2*time.Second),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("NATS connection lost; reconnecting", "err", err)
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) { log.Info("NATS connection restored") }),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			if sub == nil { // the error concerns the connection
				log.Warn("NATS connection error", "err", err)
				return
			}
			log.Warn("NATS subscription fell behind", "subject", sub.Subject, "err", err)
		}),
	)
	if errors.As(err, new(*url.Error)) { // the error quotes the URL with its password
		return nil, errors.New("nats_url is malformed; in a user name or password, % # / ? @ and the like must be URL-encoded")
	}
	if err != nil {
		return nil, fmt.Errorf("connecting to NATS: %w", err)
	}
	return nc, nil
}
