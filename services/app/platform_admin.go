package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"slipway.dev/services/internal/config"
	"slipway.dev/services/platform"
	"slipway.dev/services/platform/identity"
	"slipway.dev/services/platform/vault"
)

// masterKeyFile is where the master keys are.
func masterKeyFile(cfg config.Config) string {
	if cfg.MasterKeyFile != "" {
		return cfg.MasterKeyFile
	}
	return filepath.Join(cfg.DataDir, "master-key")
}

// Accounts are the platform's users, tokens and keys for the command line, which
// works on the database beside a running server. Close it.
type Accounts struct {
	*platform.Service
	keys  *vault.Keys
	close func() error
}

// OpenAccounts opens the database that the settings name, and makes none: a command in
// another folder would else have a platform of its own. withKeys also opens the master
// keys.
func OpenAccounts(ctx context.Context, cfg config.Config, withKeys bool) (_ *Accounts, err error) {
	if path, ok := strings.CutPrefix(databaseURL(cfg), "sqlite:"); ok {
		if _, err := os.Stat(path); err != nil {
			where, _ := filepath.Abs(path)
			return nil, fmt.Errorf("no database at %s: start slipwayd there first, or give the --data-dir or --database-url that it runs with", where)
		}
	}
	db, err := openDatabase(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, db.Close())
		}
	}()
	prepare := db.Check
	if db.IsSQLite() {
		prepare = db.Migrate
	}
	if err := prepare(ctx, "platform", platform.Migrations()); err != nil {
		return nil, err
	}
	a := &Accounts{close: db.Close}
	if withKeys {
		if a.keys, err = vault.Open(masterKeyFile(cfg), false); err != nil {
			return nil, err
		}
	}
	a.Service, err = platform.New(platform.Deps{DB: db, Keys: a.keys, Now: time.Now})
	return a, err
}

// Rotate makes a new master key, wraps every data key with it, and answers how
// many. A server that runs takes the new key over by itself. With rewrap the
// first key of the file is taken as it is: somebody else put it there.
func (a *Accounts) Rotate(ctx context.Context, rewrap bool) (int, error) {
	if err := a.CheckKeys(ctx); err != nil {
		return 0, err
	}
	if !rewrap {
		if err := a.keys.Add(); err != nil {
			return 0, err
		}
	}
	n, err := a.RotateKeys(ctx)
	if err != nil {
		return n, fmt.Errorf("rotating the master key: %w", err)
	}
	return n, nil
}

// CreateUser makes a user.
func (a *Accounts) CreateUser(ctx context.Context, u User) (User, error) {
	made, err := a.Service.CreateUser(ctx, identity.Account(u))
	return User(made), err
}

// Users lists all users.
func (a *Accounts) Users(ctx context.Context) ([]User, error) {
	list, err := a.Service.Users(ctx)
	out := make([]User, len(list))
	for i, u := range list {
		out[i] = User(u)
	}
	return out, err
}

// User is an account of the platform.
type User identity.Account

// Close ends it.
func (a *Accounts) Close() error { return a.close() }
