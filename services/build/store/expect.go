package store

import (
	"context"
	"time"

	"slipway.dev/services/build/engine"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/sqldb"
)

// A Load is a build that runs, or waits for a worker.
type Load struct {
	Kind engine.Kind
	// Worker has run it since Started; both are zero while it waits.
	Worker  string
	Started time.Time
	// Caller is the caller whose limits apply, without a robot's organisation and repositories.
	Caller caller.ID
}

// LoadOf returns a build that waits.
func LoadOf(r Record) Load {
	who := caller.Of(r.Request.GetIdentity())
	return Load{Kind: r.Kind(), Caller: caller.ID{Endpoint: who.Endpoint, UserID: who.UserID, WorkspaceID: who.WorkspaceID, OrganizationID: who.OrganizationID}}
}

// Loads returns up to limit builds: first the running builds, then the builds that wait
// ahead of r, each with the oldest first.
func (s Store) Loads(ctx context.Context, r Record, limit int) ([]Load, error) {
	rows, err := s.db.QueryContext(ctx, `
		SELECT engine, architecture, CASE WHEN started_at > 0 THEN worker ELSE '' END, started_at,
			endpoint, user_id, workspace_id, organization_id
		FROM build_builds WHERE state = 'PENDING' AND engine <> $1 AND (started_at > 0 OR created_at < $2)
		ORDER BY CASE WHEN started_at > 0 THEN 0 ELSE 1 END, created_at, id LIMIT $3`,
		engine.Index, sqldb.Micros(r.Created), limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Load
	for rows.Next() {
		var l Load
		var started int64
		if err := rows.Scan(&l.Kind.Engine, &l.Kind.Architecture, &l.Worker, &started,
			&l.Caller.Endpoint, &l.Caller.UserID, &l.Caller.WorkspaceID, &l.Caller.OrganizationID); err != nil {
			return nil, err
		}
		l.Started = sqldb.Time(started)
		out = append(out, l)
	}
	return out, rows.Err()
}

// Lengths returns the durations of the newest builds of a kind that workers have completed
// since a time.
func (s Store) Lengths(ctx context.Context, c engine.Kind, since time.Time, limit int) ([]time.Duration, error) {
	rows, err := s.db.QueryContext(ctx, `
		SELECT completed_at - started_at FROM build_builds
		WHERE engine = $1 AND architecture = $2 AND completed_at >= $3 AND state = 'COMPLETED' AND succeeded AND started_at > 0
		ORDER BY completed_at DESC LIMIT $4`, c.Engine, c.Architecture, sqldb.Micros(since), limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []time.Duration
	for rows.Next() {
		var micros int64
		if err := rows.Scan(&micros); err != nil {
			return nil, err
		}
		out = append(out, time.Duration(micros)*time.Microsecond)
	}
	return out, rows.Err()
}
