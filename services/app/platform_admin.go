package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"time"

	"slipway.dev/services/internal/config"
	"slipway.dev/services/platform"
	"slipway.dev/services/platform/audit"
	"slipway.dev/services/platform/identity"
	"slipway.dev/services/platform/vault"
)

// MasterKeyFile returns the path of the file with the master keys.
func MasterKeyFile(cfg config.Config) string {
	if cfg.MasterKeyFile != "" {
		return cfg.MasterKeyFile
	}
	return filepath.Join(cfg.DataDir, "master-key")
}

// Accounts manages the platform's users, tokens and keys for the command line. It works on
// the database next to a running server. The caller must close it.
type Accounts struct {
	*platform.Service
	keys  *vault.Keys
	close func() error
}

// OpenAccounts opens the database that the settings name; it does not create one.
// withKeys also opens the master keys.
func OpenAccounts(ctx context.Context, cfg config.Config, withKeys bool) (_ *Accounts, err error) {
	db, err := openTables(ctx, cfg, "platform", platform.Migrations())
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, db.Close())
		}
	}()
	a := &Accounts{close: db.Close}
	if withKeys {
		if a.keys, err = vault.Open(MasterKeyFile(cfg), false); err != nil {
			return nil, err
		}
	}
	a.Service, err = platform.New(platform.Deps{DB: db, Keys: a.keys, MaxTokenLife: cfg.TokenMaxLifetime, Now: time.Now})
	return a, err
}

// Rotate creates a new master key, wraps every data key with it, and returns their number.
// A running server reloads the key. With rewrap it creates no key, and uses the first key of
// the file, which an operator has added.
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

// CreateUser creates a user.
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

// NewToken describes an access token to create.
type NewToken identity.NewToken

// CreateTokenFor creates an access token for the user with a name or e-mail address, and returns it.
func (a *Accounts) CreateTokenFor(ctx context.Context, userName string, t NewToken) (string, error) {
	return a.Service.CreateTokenFor(ctx, userName, identity.NewToken(t))
}

// ByCommand returns a context with which the audit trail attributes changes to the operating
// system account that runs the command.
func ByCommand(ctx context.Context) context.Context {
	name := strconv.Itoa(os.Getuid())
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return audit.WithActor(ctx, audit.Actor{Name: "slipwayd:" + name})
}

// VerifyAudit checks the audit trail and returns its newest event as NUMBER:HASH. known lists
// results of earlier calls. These events must still be in the trail, unless their retention
// has ended.
func (a *Accounts) VerifyAudit(ctx context.Context, known []string) (string, error) {
	positions := make([]audit.Position, len(known))
	for i, text := range known {
		var err error
		if positions[i], err = audit.ParsePosition(text); err != nil {
			return "", err
		}
	}
	head, err := a.Service.VerifyAudit(ctx, positions...)
	return head.String(), err
}

// Close closes the database.
func (a *Accounts) Close() error { return a.close() }

// CheckProvider returns an error if the sign-in provider of oidc_issuer cannot be used, and the
// address of the platform to which it sends users back.
func CheckProvider(ctx context.Context, cfg config.Config) (callback string, err error) {
	return identity.CheckProvider(ctx, identity.OIDC{Issuer: cfg.OIDCIssuer}, bare(cfg.PlatformURL))
}
