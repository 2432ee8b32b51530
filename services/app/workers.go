package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"slipway.dev/services/build"
	"slipway.dev/services/internal/config"
	"slipway.dev/services/internal/sqldb"
)

// Workers manages the keys of workers for the command line. The caller must close it.
type Workers struct {
	keys build.WorkerKeys
	db   *sqldb.DB
}

// OpenWorkers opens the database that the settings name. It does not create one.
func OpenWorkers(ctx context.Context, cfg config.Config) (*Workers, error) {
	db, err := openTables(ctx, cfg, "build", build.Migrations())
	if err != nil {
		return nil, err
	}
	return &Workers{keys: build.NewWorkerKeys(db), db: db}, nil
}

// WorkerKey is a key with which a worker signs records of layers.
type WorkerKey build.WorkerKey

// List returns the keys of workers, those seen last first.
func (w *Workers) List(ctx context.Context) ([]WorkerKey, error) {
	keys, err := w.keys.List(ctx)
	out := make([]WorkerKey, len(keys))
	for i, k := range keys {
		out[i] = WorkerKey(k)
	}
	return out, err
}

// WorkerImage is an image that a worker built, or that has layers that it signed.
type WorkerImage build.WorkerImage

// Revoke revokes the keys of a worker, or of a certificate, and returns the affected images.
func (w *Workers) Revoke(ctx context.Context, name string) ([]WorkerImage, error) {
	images, err := w.keys.Revoke(ctx, name, time.Now())
	out := make([]WorkerImage, len(images))
	for i, image := range images {
		out[i] = WorkerImage(image)
	}
	return out, err
}

// Close closes the database.
func (w *Workers) Close() error { return w.db.Close() }

// openTables opens the database that the settings name, with the tables of one service. It
// does not create a database: a command that runs in another folder would otherwise work on
// an empty one.
func openTables(ctx context.Context, cfg config.Config, service string, migrations fs.FS) (*sqldb.DB, error) {
	if path, ok := strings.CutPrefix(DatabaseURL(cfg), "sqlite:"); ok {
		if _, err := os.Stat(path); err != nil {
			where, _ := filepath.Abs(path)
			return nil, fmt.Errorf("no database at %s: start slipwayd there first, or give the --data-dir or --database-url that it runs with", where)
		}
	}
	db, err := openDatabase(ctx, cfg)
	if err != nil {
		return nil, err
	}
	prepare := db.Check
	if db.IsSQLite() {
		prepare = db.Migrate
	}
	if err := prepare(ctx, service, migrations); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}
