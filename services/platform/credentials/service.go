// Package credentials owns the logins of users at registries and Conda channels. Secrets are
// stored encrypted and never returned to users; only other services of the program and paired
// platforms can read them. It writes the table platform_credentials.
package credentials

import (
	"context"
	"log/slog"
	"time"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/upstream"
	"slipway.dev/services/platform/audit"
	"slipway.dev/services/platform/orgs"
	"slipway.dev/services/platform/vault"
)

// Table is the table of credentials. Its rows contain envelopes and belong to workspaces.
const Table = "platform_credentials"

// Users looks up users.
type Users interface {
	// HasUser reports whether a user exists and is not disabled.
	HasUser(ctx context.Context, id int64) (bool, error)
}

// Workspaces looks up the roles of users.
type Workspaces interface {
	// WorkspaceRole returns a workspace and the user's role in it. A workspaceID of 0 is the
	// personal workspace. It returns fault.Denied if the user has no role.
	WorkspaceRole(ctx context.Context, userID, workspaceID int64) (orgs.Space, orgs.Role, error)
}

// A Notifier is notified of changed credentials, after the change is stored.
type Notifier interface {
	Notify(ctx context.Context, c caller.Change)
}

// Deps are the dependencies of a Service.
type Deps struct {
	DB         *sqldb.DB
	Users      Users
	Workspaces Workspaces
	// Keys encrypts secrets. If it is nil, no credentials can be stored.
	Keys     *vault.Keys
	Audit    audit.Log
	Notifier Notifier
	// AdminLogins are additional logins of the first user, by registry host or host/path.
	AdminLogins map[string]upstream.Login
	Log         *slog.Logger
	// Now returns the current time.
	Now func() time.Time
}

// Service implements the calls for credentials. Create it with New.
type Service struct {
	store store
	deps  Deps
}

// store accesses the table of this package.
type store struct {
	db    *sqldb.DB
	audit audit.Log
}

// New returns a Service. The table must exist.
func New(d Deps) *Service { return &Service{store: store{d.DB, d.Audit}, deps: d} }
