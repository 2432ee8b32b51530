package doctor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"slipway.dev/services/app"
	"slipway.dev/services/internal/bus"
	"slipway.dev/services/internal/kv"
)

// database checks that the database can be opened and that its tables are current.
func (d *doctor) database(ctx context.Context) []Finding {
	const check = "database"
	if path, ok := d.sqliteFile(); ok {
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			return one(check, path+" is created at the first start", nil, OK, "")
		}
	}
	bytes, old, err := app.Tables(ctx, d.Config)
	if err != nil {
		return one(check, "", fmt.Errorf("the database does not respond: %w", err), Fail, "check that it is running, and that database_url has its address, user and password")
	}
	if old != nil {
		return one(check, "", old, Fail, "slipwayd migrate")
	}
	return one(check, fmt.Sprintf("it responds, its tables are of this version, and its size is %s", size(bytes)), nil, OK, "")
}

// sqliteFile returns the path of the database; false if it is not SQLite.
func (d *doctor) sqliteFile() (string, bool) {
	if d.Config.DatabaseURL == "" {
		return filepath.Join(d.Config.DataDir, "slipway.db"), true
	}
	return strings.CutPrefix(d.Config.DatabaseURL, "sqlite:")
}

func (d *doctor) redis(ctx context.Context) []Finding {
	const check = "Redis"
	if d.Config.RedisURL == "" {
		return one(check, "it is inside the process", nil, OK, "")
	}
	client, err := kv.Connect(d.Config.RedisURL)
	if err == nil {
		err = errors.Join(client.Ping(ctx).Err(), client.Close())
	}
	return one(check, "it answers", err, Fail, "check that it is running, and that redis_url has its address and password")
}

func (d *doctor) nats(ctx context.Context) []Finding {
	const check = "NATS"
	if d.Config.NATSURL == "" {
		return one(check, "it is inside the process", nil, OK, "")
	}
	conn, err := bus.Connect(d.Config.NATSURL, slog.New(slog.DiscardHandler))
	if err != nil {
		return one(check, "", err, Fail, "correct nats_url")
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return one(check, "", err, Fail, "correct nats_url")
	}
	accountCtx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	account, err := js.AccountInfo(accountCtx)
	if errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) {
		return one(check, "", errors.New("it responds, but without JetStream, in which builds wait for workers"), Fail, "start nats-server with --jetstream, or with a jetstream block in its configuration")
	}
	if err != nil && conn.LastError() != nil {
		err = conn.LastError()
	}
	if err != nil {
		return one(check, "", err, Fail, "check that it is running, and that nats_url has its address, user and password")
	}
	return append(streams(int64(account.Store), account.Limits.MaxStore), d.unread(ctx, js)...)
}

// unread warns of events that no role reads.
func (d *doctor) unread(ctx context.Context, js jetstream.JetStream) []Finding {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	backlogs, err := app.Backlogs(ctx, js)
	findings := unreadFindings(backlogs)
	if err != nil {
		if last := js.Conn().LastError(); last != nil { // a denied request gets no response
			err = last
		}
		findings = append(findings, Finding{
			Check: "NATS", State: Warn, Text: fmt.Sprintf("whether events wait is unknown: %v", err),
			Do: "check the load of NATS, and that the user of nats_url may publish to $JS.API.>",
		})
	}
	return findings
}

// maxUnread is the age above which an event counts as not read, as in the alert
// SlipwayEventsNotRead.
const maxUnread = 10 * time.Minute

// unreadFindings returns a warning for each consumer whose oldest message is older than maxUnread.
func unreadFindings(all []app.Backlog) (out []Finding) {
	roles := map[string]string{
		"webhooks":  "the role platform runs, and read its log: events for webhooks are lost after a week",
		"container": "the role container runs, and read its log: events for webhooks are lost after a week",
		"metrics":   "the role metrics runs, and read its log: usage is not counted",
	}
	for _, b := range all {
		if b.Age > maxUnread {
			out = append(out, Finding{
				Check: "NATS", State: Warn, Text: fmt.Sprintf("%s waited up to %s", waiting(b), b.Age.Round(time.Minute)),
				Do: "check that " + roles[b.Consumer] + fmt.Sprintf("; if no process has this role any more, delete its consumer: nats consumer rm %s %s", b.Stream, b.Consumer),
			})
		}
	}
	return out
}

// waiting returns the number of messages as text. A message for metrics has up to 500 events.
func waiting(b app.Backlog) string {
	if b.Messages == 1 {
		return "1 message for " + b.Consumer + " has"
	}
	return fmt.Sprintf("%d messages for %s have", b.Messages, b.Consumer)
}

// size formats a number of bytes.
func size(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }

// streams checks the space that the streams of an account use. A limit of 0 or less
// means that there is no limit.
func streams(used, limit int64) []Finding {
	const check = "NATS"
	if limit <= 0 {
		return one(check, "it responds, with JetStream, and its streams use "+size(used), nil, OK, "")
	}
	text := fmt.Sprintf("it responds, with JetStream, and its streams use %s of %s", size(used), size(limit))
	if float64(used) > 0.9*float64(limit) {
		return one(check, "", errors.New(text), Warn, "raise the limit of the account (max_file); when it is reached, no builds are queued and no usage is counted")
	}
	return one(check, text, nil, OK, "")
}
