// Package orgs owns organisations and workspaces, and who may do what in them. It
// writes the tables platform_orgs, platform_members, platform_workspaces and
// platform_participants, and reads the users whom identity keeps beside them.
package orgs

import (
	"context"
	"time"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/platform/identity"
)

// Users finds people.
type Users interface {
	// UserByName finds a user by name or e-mail address; fault.Invalid.
	UserByName(ctx context.Context, name string) (identity.User, error)
}

// Notifier hears whose rights have changed, after they have.
type Notifier interface {
	Notify(ctx context.Context, c caller.Change)
}

// Deps is what the service works with.
type Deps struct {
	DB     *sqldb.DB
	Users  Users
	Rights Notifier
	// Kept are the tables of what is kept in a workspace, each with a column
	// workspace_id: a workspace with such rows is not deleted.
	Kept []string
	// Now is the clock.
	Now func() time.Time
}

// Service answers the calls about organisations and workspaces. Make it with New.
type Service struct {
	store store
	deps  Deps
}

// store is the tables of this package.
type store struct{ db *sqldb.DB }

// New makes the service. The tables must be there.
func New(d Deps) *Service { return &Service{store: store{d.DB}, deps: d} }
