// Package runs owns workflow runs: it stores the reports that Nextflow sends about runs and
// their tasks, counts the tasks, and searches runs. Reports may be repeated, delayed or
// incomplete; a later state of a run or task is never undone by an earlier one. It writes the
// tables platform_workflows, platform_progress and platform_tasks.
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

// Table is the table of runs, whose rows belong to workspaces.
const Table = "platform_workflows"

// Deps are the dependencies of a Service.
type Deps struct {
	DB *sqldb.DB
	// Pages is the base address of the web pages, without a slash at the end.
	Pages string
	// Now returns the current time.
	Now func() time.Time
}

// Service implements the calls for runs. Create it with New.
type Service struct {
	store store
	deps  Deps
}

// store accesses the tables of this package.
type store struct{ db *sqldb.DB }

// New returns a Service. The tables must exist.
func New(d Deps) *Service { return &Service{store: store{d.DB}, deps: d} }

// IsLive reports whether a run of a space exists and is running.
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

// IsLive reports whether a run with a status is running.
func IsLive(status string) bool { return status == statusSubmitted || status == statusRunning }
