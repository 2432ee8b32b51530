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
	where := d.Config.DatabaseURL
	if path, ok := strings.CutPrefix(where, "sqlite:"); where == "" || ok {
		if where == "" {
			path = filepath.Join(d.Config.DataDir, "slipway.db")
		}
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			return one(check, path+" is created at the first start", nil, OK, "")
		}
	}
	old, err := app.Tables(ctx, d.Config)
	if err != nil {
		return one(check, "", fmt.Errorf("the database does not respond: %w", err), Fail, "check that it is running, and that database_url has its address, user and password")
	}
	if old != nil {
		return one(check, "", old, Fail, "slipwayd migrate")
	}
	return one(check, "it responds, and its tables are of this version", nil, OK, "")
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
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err = js.AccountInfo(ctx)
	if errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) {
		return one(check, "", errors.New("it responds, but without JetStream, in which builds wait for workers"), Fail, "start nats-server with --jetstream, or with a jetstream block in its configuration")
	}
	if err != nil && conn.LastError() != nil {
		err = conn.LastError()
	}
	return one(check, "it responds, with JetStream", err, Fail, "check that it is running, and that nats_url has its address, user and password")
}
