package app

import (
	"context"
	"time"

	"slipway.dev/services/build"
	"slipway.dev/services/internal/config"
	"slipway.dev/services/internal/sqldb"
)

// Rebuilds reads the images that workers built again for the command line. The caller must close it.
type Rebuilds struct {
	rebuilds build.Rebuilds
	db       *sqldb.DB
}

// OpenRebuilds opens the database that the settings name. It does not create one.
func OpenRebuilds(ctx context.Context, cfg config.Config) (*Rebuilds, error) {
	db, err := openTables(ctx, cfg, "build", build.Migrations())
	if err != nil {
		return nil, err
	}
	return &Rebuilds{rebuilds: build.NewRebuilds(db), db: db}, nil
}

// Rebuild is an image that another worker built again, or is to build again.
type Rebuild build.Rebuild

// List returns the newest rebuilds, at most limit: all, or those that need attention or have not
// ended.
func (r *Rebuilds) List(ctx context.Context, all bool, limit int) ([]Rebuild, error) {
	list, err := r.rebuilds.List(ctx, all, limit)
	out := make([]Rebuild, len(list))
	for i, one := range list {
		out[i] = Rebuild(one)
	}
	return out, err
}

// Get returns the rebuild of a build.
func (r *Rebuilds) Get(ctx context.Context, id string) (Rebuild, error) {
	one, err := r.rebuilds.Get(ctx, id)
	return Rebuild(one), err
}

// Acknowledge records that an operator has handled a difference.
func (r *Rebuilds) Acknowledge(ctx context.Context, id string) error {
	return r.rebuilds.Acknowledge(ctx, id, time.Now())
}

// Close closes the database.
func (r *Rebuilds) Close() error { return r.db.Close() }
