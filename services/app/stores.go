package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"slipway.dev/services/build"
	"slipway.dev/services/container"
	"slipway.dev/services/internal/bucket"
	"slipway.dev/services/internal/bus"
	"slipway.dev/services/internal/config"
	"slipway.dev/services/internal/disk"
	"slipway.dev/services/internal/embedded"
	"slipway.dev/services/internal/kv"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/metrics"
	"slipway.dev/services/platform"
	"slipway.dev/services/platform/audit"
)

// openData creates data_dir. A process with all roles locks it.
func (e *env) openData(context.Context) (p parts, _ error) {
	if err := mustHave(e.cfg.DataDir); err != nil {
		return p, err
	}
	if info, err := os.Stat(e.cfg.DataDir); err == nil && info.Mode().Perm()&0o077 != 0 {
		p.problems = append(p.problems, fmt.Sprintf("Other users of this machine can read %s (mode %04o); chmod 700 it unless that is intended", e.cfg.DataDir, info.Mode().Perm()))
		e.log.Warn("data_dir is open to other users of the machine", "dir", e.cfg.DataDir, "mode", fmt.Sprintf("%04o", info.Mode().Perm()))
	}
	e.watchDisks(&p)
	if !e.isWhole() {
		return p, nil
	}
	lock, err := os.OpenFile(e.dir("lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return p, fmt.Errorf("data_dir: %w", err)
	}
	e.onClose(func() error { // closing is not enough: a child process that starts has the file open, too
		return errors.Join(syscall.Flock(int(lock.Fd()), syscall.LOCK_UN), lock.Close())
	})
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return p, fmt.Errorf("another slipwayd uses %s; stop it, or set another data_dir", e.cfg.DataDir)
	}
	return p, nil
}

// watchDisks starts to measure the free space of the disks that this process fills.
func (e *env) watchDisks(p *parts) {
	folders := []disk.Folder{{Name: "data_dir", Path: e.cfg.DataDir}}
	if e.cfg.BlobCache != "" && !bucket.IsAddress(e.cfg.BlobCache) {
		folders = append(folders, disk.Folder{Name: "blob_cache", Path: e.cfg.BlobCache})
	}
	e.disks = disk.NewWatch(int64(e.cfg.DiskReserve), folders...)
	e.reg.MustRegister(&diskMetrics{e.disks})
	p.checks = append(p.checks, newCheck("disk", optional, func(context.Context) error { return e.disks.Check() }))
}

// openDatabase opens the database of database_url, or SQLite in data_dir, if a role needs it.
func (e *env) openDatabase(ctx context.Context) (parts, error) {
	if !e.needs(func(n requirements) bool { return n.sql }) {
		return parts{}, nil
	}
	db, err := openDatabase(ctx, e.cfg)
	if err != nil {
		return parts{}, err
	}
	e.db = db
	e.onClose(db.Close)
	if e.plays("platform") {
		if err := e.checkLeftBehind(ctx); err != nil {
			return parts{}, err
		}
	}
	e.reg.MustRegister(collectors.NewDBStatsCollector(db.DB, "slipway"), &databaseSize{db})
	for _, s := range Schemas() {
		if !e.plays(s.Service) {
			continue
		}
		prepare := db.Check
		if db.IsSQLite() {
			prepare = db.Migrate
		}
		if err := prepare(ctx, s.Service, s.Migrations); err != nil {
			return parts{}, err
		}
	}
	return parts{checks: []check{newCheck("database", required, db.PingContext)}}, nil
}

// checkLeftBehind fails if the database has no users and the SQLite database in data_dir has:
// the platform would start empty, and users, credentials, runs and names would seem lost.
func (e *env) checkLeftBehind(ctx context.Context) error {
	path := filepath.Join(e.cfg.DataDir, "slipway.db")
	if DatabaseURL(e.cfg) == "sqlite:"+path {
		return nil
	}
	if _, err := os.Stat(path); err != nil {
		return nil //nolint:nilerr // without a file nothing is left behind
	}
	const users = "platform_users"
	if has, err := e.db.HasRows(ctx, users); err != nil || has {
		return err
	}
	old, err := sqldb.Open(ctx, "sqlite:"+path)
	if err != nil {
		return err
	}
	has, err := old.HasRows(ctx, users)
	if err := errors.Join(err, old.Close()); err != nil || !has {
		return err
	}
	return fmt.Errorf("the database of database_url is empty, and %s has users: copy it with `slipwayd migrate --from sqlite:%s` and the same settings, or move it out of data_dir to start empty", path, path)
}

// openDatabase opens the database that the settings name. It fails for a SQLite database that
// was copied to another one: what is written to it would have no effect.
func openDatabase(ctx context.Context, cfg config.Config) (*sqldb.DB, error) {
	if err := CheckMoved(cfg); err != nil {
		return nil, err
	}
	return sqldb.Open(ctx, DatabaseURL(cfg))
}

// movedFile is a file in data_dir that `slipwayd migrate --from` creates when it has copied
// everything.
const movedFile = "moved"

// MarkMoved marks a data_dir whose database has been copied to another one.
func MarkMoved(dir string) error {
	return os.WriteFile(filepath.Join(dir, movedFile), []byte("The database of this folder was copied by slipwayd migrate --from, and is not used any more.\n"), 0o600)
}

// CheckMoved returns an error if the settings name a SQLite database that was copied to another
// one.
func CheckMoved(cfg config.Config) error {
	path, ok := strings.CutPrefix(DatabaseURL(cfg), "sqlite:")
	if !ok {
		return nil
	}
	mark := filepath.Join(filepath.Dir(path), movedFile)
	if _, err := os.Stat(mark); err != nil {
		return nil //nolint:nilerr // without the file, nothing was copied
	}
	return fmt.Errorf("%s was copied to another database with slipwayd migrate --from, so what is changed here has no effect: set database_url, or delete %s to return to it", path, mark)
}

// DatabaseURL returns the URL of the database. By default it is a SQLite file in data_dir.
func DatabaseURL(cfg config.Config) string {
	if cfg.DatabaseURL == "" {
		return "sqlite:" + filepath.Join(cfg.DataDir, "slipway.db")
	}
	return cfg.DatabaseURL
}

// A Schema is the tables of one service.
type Schema struct {
	Service    string
	Migrations fs.FS
}

// Schemas returns the schemas of all services with tables.
func Schemas() []Schema {
	return []Schema{{"platform", platform.Migrations()}, {"container", container.Migrations()}, {"build", build.Migrations()}, {"metrics", metrics.Migrations()}}
}

// Migrate migrates the tables of every service to the newest version.
func Migrate(ctx context.Context, cfg config.Config) (err error) {
	if cfg.DatabaseURL == "" { // otherwise nothing is stored in data_dir
		if err := mustHave(cfg.DataDir); err != nil {
			return err
		}
	}
	db, err := openDatabase(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for _, m := range Schemas() {
		if err := db.Migrate(ctx, m.Service, m.Migrations); err != nil {
			return err
		}
	}
	return nil
}

// Tables checks the tables in the database that the settings name, and migrates nothing. It
// returns the size of the database in bytes. The error old names the services whose tables are
// not of this version; it is nil if all tables are current. err is set if the database cannot be
// reached.
func Tables(ctx context.Context, cfg config.Config) (size int64, old, err error) {
	db, err := openDatabase(ctx, cfg)
	if err != nil {
		return 0, nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for _, m := range Schemas() {
		old = errors.Join(old, db.Check(ctx, m.Service, m.Migrations))
	}
	size, err = db.Size(ctx)
	return size, old, err
}

// AuditSinkState returns how far the audit trail was written to audit_sink. The tables must be of
// this version.
func AuditSinkState(ctx context.Context, cfg config.Config) (s audit.SinkState, err error) {
	db, err := openDatabase(ctx, cfg)
	if err != nil {
		return audit.SinkState{}, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return audit.Log{DB: db, Now: time.Now}.SinkState(ctx)
}

// openRedis connects to redis_url, or starts Redis in this process, if a role needs it.
func (e *env) openRedis(context.Context) (parts, error) {
	if !e.needs(func(n requirements) bool { return n.redis }) {
		return parts{}, nil
	}
	if e.cfg.RedisURL == "" {
		r := embedded.StartRedis()
		e.onClose(func() error { r.Close(); return nil })
		e.redis = kv.Local(r.Dial)
	} else {
		client, err := kv.Connect(e.cfg.RedisURL)
		if err != nil {
			return parts{}, err
		}
		e.redis = client
	}
	e.onClose(e.redis.Close)
	// Without Redis, requests and pulls continue, and limits are not enforced.
	ping := func(ctx context.Context) error { return e.redis.Ping(ctx).Err() }
	return parts{checks: []check{newCheck("redis", optional, ping)}}, nil
}

// openBus connects to nats_url, or starts NATS in this process, if a role needs it.
func (e *env) openBus(context.Context) (_ parts, err error) {
	if !e.needs(func(n requirements) bool { return n.bus || n.optionalBus && e.cfg.NATSURL != "" }) {
		return parts{}, nil
	}
	if e.cfg.NATSURL == "" {
		server, err := embedded.StartNATS(e.cfg.DataDir, e.log)
		if err != nil {
			return parts{}, err
		}
		e.onClose(func() error { server.Shutdown(); server.WaitForShutdown(); return nil })
		if e.nats, err = bus.Local(server, e.log); err != nil {
			return parts{}, err
		}
	} else if e.nats, err = bus.Connect(e.cfg.NATSURL, e.log); err != nil {
		return parts{}, err
	}
	e.onClose(func() error { e.nats.Close(); return nil })
	if e.plays("build") {
		js, err := jetstream.New(e.nats)
		if err != nil {
			return parts{}, err
		}
		e.reg.MustRegister(&busStorage{js}, newUnreadMetrics(js))
	}
	// Without NATS, requests and pulls continue. New builds wait until it is available again,
	// and a revocation takes effect after up to a minute.
	connected := func(context.Context) error {
		if !e.nats.IsConnected() {
			return errors.New("not connected")
		}
		return nil
	}
	return parts{checks: []check{newCheck("nats", optional, connected)}}, nil
}

// dataMarker is a file in data_dir by which `slipway` recognises the folder, so that it is
// never packed into an image.
const dataMarker = ".slipway-data"

func mustHave(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("data_dir: %w", err)
	}
	const text = "This folder holds the data and keys of a slipwayd. Do not put it into images, repositories or shared folders.\n"
	if err := os.WriteFile(filepath.Join(dir, dataMarker), []byte(text), 0o600); err != nil {
		return fmt.Errorf("data_dir: %w", err)
	}
	return nil
}
