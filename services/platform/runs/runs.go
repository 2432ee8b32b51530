// Package runs owns what workflows report of themselves: runs, their tasks, what was
// counted of them, and the search for them. It writes the tables platform_workflows,
// platform_progress and platform_tasks.
package runs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/platform/orgs"
)

// Table is kept in a workspace.
const Table = "platform_workflows"

// Deps is what the service works with.
type Deps struct {
	DB *sqldb.DB
	// Pages is the address of the page for people, without a slash at the end.
	Pages string
	// Now is the clock.
	Now func() time.Time
}

// Service answers the calls about runs. Make it with New.
type Service struct {
	store store
	deps  Deps
}

// store is the tables of this package.
type store struct{ db *sqldb.DB }

// New makes the service. The tables must be there.
func New(d Deps) *Service { return &Service{store: store{d.DB}, deps: d} }

// IsLive says whether a run of a space goes on; one that is not there does not.
func (s *Service) IsLive(ctx context.Context, in orgs.Space, id string) (bool, error) {
	w, err := s.store.workflow(ctx, in, id)
	if errors.Is(err, fault.NotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading run %s: %w", id, err)
	}
	return IsLive(w.statusAt(s.deps.Now())), nil
}

// IsLive says whether a run with that status goes on.
func IsLive(status string) bool { return status == statusSubmitted || status == statusRunning }
