// Package credentials owns the logins that people keep at registries: they are sealed,
// shown without their secrets, and opened for rooms and paired services alone. It
// writes the table platform_credentials.
package credentials

import (
	"context"
	"time"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/upstream"
	"slipway.dev/services/platform/audit"
	"slipway.dev/services/platform/orgs"
	"slipway.dev/services/platform/vault"
)

// Table holds sealed rows, and is kept in a workspace.
const Table = "platform_credentials"

// Users knows who there is.
type Users interface {
	HasUser(ctx context.Context, id int64) (bool, error)
}

// Workspaces says what a user may do in a workspace; fault.Denied for nothing.
type Workspaces interface {
	EnterWorkspace(ctx context.Context, userID, workspaceID int64) (orgs.Space, orgs.Role, error)
}

// Notifier hears whose credentials have changed, after they have.
type Notifier interface {
	Notify(ctx context.Context, c caller.Change)
}

// Deps is what the service works with.
type Deps struct {
	DB         *sqldb.DB
	Users      Users
	Workspaces Workspaces
	// Keys seal; nil keeps no credentials.
	Keys   *vault.Keys
	Trail  audit.Trail
	Rights Notifier
	// AdminLogins are the first user's, by registry host or host/path.
	AdminLogins map[string]upstream.Login
	// Now is the clock.
	Now func() time.Time
}

// Service answers the calls about credentials. Make it with New.
type Service struct {
	store store
	deps  Deps
}

// store is the table of this package.
type store struct{ db *sqldb.DB }

// New makes the service. The table must be there.
func New(d Deps) *Service { return &Service{store: store{d.DB}, deps: d} }
