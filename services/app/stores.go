package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/prometheus/client_golang/prometheus/collectors"

	"slipway.dev/services/build"
	"slipway.dev/services/container"
	"slipway.dev/services/internal/bus"
	"slipway.dev/services/internal/config"
	"slipway.dev/services/internal/embedded"
	"slipway.dev/services/internal/kv"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/metrics"
	"slipway.dev/services/platform"
)

// openData makes data_dir this process's own.
func (a *App) openData(context.Context) error {
	if err := mustHave(a.cfg.DataDir); err != nil {
		return err
	}
	if info, err := os.Stat(a.cfg.DataDir); err == nil && info.Mode().Perm()&0o077 != 0 {
		a.problems = append(a.problems, fmt.Sprintf("Others on this machine can look into %s (mode %04o); chmod 700 it unless they are meant to", a.cfg.DataDir, info.Mode().Perm()))
		a.log.Warn("data_dir is open to other users of the machine", "dir", a.cfg.DataDir, "mode", fmt.Sprintf("%04o", info.Mode().Perm()))
	}
	if !a.isWhole() {
		return nil
	}
	lock, err := os.OpenFile(a.dir("lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("data_dir: %w", err)
	}
	a.onClose(func() error { // a child that is being started has the file, too, until it runs its program
		return errors.Join(syscall.Flock(int(lock.Fd()), syscall.LOCK_UN), lock.Close())
	})
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("another slipwayd uses %s; stop it, or set another data_dir", a.cfg.DataDir)
	}
	return nil
}

// openDatastores opens database, Redis and NATS: the one that a URL names, or one in
// this process.
func (a *App) openDatastores(ctx context.Context) error {
	var problems []error
	if a.needs(func(n need) bool { return n.sql }) {
		problems = append(problems, a.openDatabase(ctx))
	}
	if a.needs(func(n need) bool { return n.redis }) {
		problems = append(problems, a.openRedis())
	}
	if a.needs(func(n need) bool { return n.bus || n.hears && a.cfg.NATSURL != "" }) {
		problems = append(problems, a.openBus())
	}
	return errors.Join(problems...)
}

func (a *App) openDatabase(ctx context.Context) error {
	db, err := openDatabase(ctx, a.cfg)
	if err != nil {
		return err
	}
	a.db = db
	a.onClose(db.Close)
	a.check("database", required, db.PingContext)
	a.reg.MustRegister(collectors.NewDBStatsCollector(db.DB, "slipway"))
	for _, m := range schemas() {
		if !a.plays(m.room) {
			continue
		}
		prepare := db.Check
		if db.IsSQLite() {
			prepare = db.Migrate
		}
		if err := prepare(ctx, m.room, m.files); err != nil {
			return err
		}
	}
	return nil
}

func openDatabase(ctx context.Context, cfg config.Config) (*sqldb.DB, error) {
	return sqldb.Open(ctx, databaseURL(cfg))
}

func databaseURL(cfg config.Config) string {
	if cfg.DatabaseURL == "" {
		return "sqlite:" + filepath.Join(cfg.DataDir, "slipway.db")
	}
	return cfg.DatabaseURL
}

type schema struct {
	room  string
	files fs.FS
}

// schemas lists the rooms that have tables.
func schemas() []schema {
	return []schema{{"platform", platform.Migrations()}, {"container", container.Migrations()}, {"build", build.Migrations()}, {"metrics", metrics.Migrations()}}
}

// Migrate brings every room's tables to the newest version.
func Migrate(ctx context.Context, cfg config.Config) (err error) {
	if err := mustHave(cfg.DataDir); err != nil {
		return err
	}
	db, err := openDatabase(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for _, m := range schemas() {
		if err := db.Migrate(ctx, m.room, m.files); err != nil {
			return err
		}
	}
	return nil
}

// Tables opens the database that the settings name, and says which room's tables are
// not of this version; nil when all are. It migrates nothing. The error is one of
// reaching the database.
func Tables(ctx context.Context, cfg config.Config) (old, err error) {
	db, err := openDatabase(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := db.PingContext(ctx); err != nil {
		return nil, err
	}
	for _, m := range schemas() {
		old = errors.Join(old, db.Check(ctx, m.room, m.files))
	}
	return old, nil
}

func (a *App) openRedis() error {
	if a.cfg.RedisURL == "" {
		r := embedded.StartRedis()
		a.onClose(func() error { r.Close(); return nil })
		a.redis = kv.Local(r.Dial)
	} else {
		client, err := kv.Connect(a.cfg.RedisURL)
		if err != nil {
			return err
		}
		a.redis = client
	}
	a.onClose(a.redis.Close)
	// Without Redis requests and pulls go on; only limits are open.
	a.check("redis", optional, func(ctx context.Context) error { return a.redis.Ping(ctx).Err() })
	return nil
}

func (a *App) openBus() (err error) {
	if a.cfg.NATSURL == "" {
		server, err := embedded.StartNATS(a.cfg.DataDir)
		if err != nil {
			return err
		}
		a.onClose(func() error { server.Shutdown(); server.WaitForShutdown(); return nil })
		a.nats, err = bus.Local(server, a.log)
		if err != nil {
			return err
		}
	} else if a.nats, err = bus.Connect(a.cfg.NATSURL, a.log); err != nil {
		return err
	}
	a.onClose(func() error { a.nats.Close(); return nil })
	// Without NATS a revocation takes up to a minute; nothing else waits for it.
	a.check("nats", optional, func(context.Context) error {
		if !a.nats.IsConnected() {
			return errors.New("not connected")
		}
		return nil
	})
	return nil
}
