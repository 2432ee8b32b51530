// Package orgs owns organisations, workspaces, the roles of users in them, invitations, and robots.
// It writes the tables platform_orgs, platform_members, platform_workspaces, platform_participants,
// platform_invitations, platform_removals and platform_robots, and joins them with platform_users and
// platform_robot_tokens, which package identity writes.
package orgs

import (
	"context"
	"log/slog"
	"time"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/platform/audit"
	"slipway.dev/services/platform/identity"
)

// Users looks up users.
type Users interface {
	// UserOrAddress returns the user with a name or e-mail address. If no user has the address, it
	// returns the address in the form in which addresses are compared.
	UserOrAddress(ctx context.Context, name string) (u identity.User, address string, err error)
}

// A Notifier is notified of users whose roles have changed, after the change is stored.
type Notifier interface {
	Notify(ctx context.Context, c caller.Change)
}

// Deps are the dependencies of a Service.
type Deps struct {
	DB       *sqldb.DB
	Users    Users
	Audit    audit.Log
	Notifier Notifier
	// WorkspaceTables lists the tables of records that belong to a workspace, each with a
	// column workspace_id. A workspace with such rows cannot be deleted.
	WorkspaceTables []string
	// GroupRoles are the roles of groups at the sign-in provider.
	GroupRoles []GroupRole
	Log        *slog.Logger
	// Now returns the current time.
	Now func() time.Time
}

// Service implements the calls for organisations and workspaces. Create it with New.
type Service struct {
	store store
	deps  Deps
}

// store accesses the tables of this package.
type store struct {
	db    *sqldb.DB
	audit audit.Log
}

// New returns a Service. The tables must exist.
func New(d Deps) *Service { return &Service{store: store{d.DB, d.Audit}, deps: d} }
