package store

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	eventsv1 "slipway.dev/proto/gen/slipway/events/v1"

	"slipway.dev/services/build/engine"
	"slipway.dev/services/internal/bus/eventbus"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sqldb"
)

// addStarted adds an event if a build has just started for the first time, and its user could
// have webhooks.
func addStarted(ctx context.Context, tx *sql.Tx, id string, now time.Time) error {
	_, err := tx.ExecContext(ctx, `
		INSERT INTO build_events (build_id, type, at)
		SELECT id, CASE WHEN engine = $3 THEN CAST($4 AS text) ELSE $5 END, started_at FROM build_builds WHERE id = $1 AND started_at = $2 AND endpoint <> ''
		ON CONFLICT DO NOTHING`, id, sqldb.Micros(now), engine.Mirror, eventbus.MirrorStarted, eventbus.BuildStarted)
	return err
}

// addEnded adds an event for a build that has ended.
func addEnded(ctx context.Context, tx *sql.Tx, id string, succeeded bool, now time.Time) error {
	build, mirror := eventbus.BuildFailed, eventbus.MirrorFailed
	if succeeded {
		build, mirror = eventbus.BuildSucceeded, eventbus.MirrorSucceeded
	}
	_, err := tx.ExecContext(ctx, `
		INSERT INTO build_events (build_id, type, at)
		SELECT id, CASE WHEN engine = $3 THEN CAST($4 AS text) ELSE $5 END, CAST($2 AS bigint) FROM build_builds WHERE id = $1
		ON CONFLICT DO NOTHING`, id, sqldb.Micros(now), engine.Mirror, mirror, build)
	return err
}

// Events returns up to limit events that are not published, the oldest first.
func (s Store) Events(ctx context.Context, limit int) ([]*eventsv1.Event, error) {
	return sqldb.Listing[*eventsv1.Event]{
		Read: `SELECT b.id, e.type, e.at, b.endpoint, b.user_id, b.workspace_id, b.engine, b.request, b.created_at, b.started_at, b.completed_at,
				b.digest, b.reason, b.message
			FROM build_events e JOIN build_builds b ON b.id = e.build_id ORDER BY e.at, b.id, e.type LIMIT $1`,
		Scan: scanEvent,
	}.All(ctx, s.db, limit)
}

func scanEvent(rows *sql.Rows) (*eventsv1.Event, error) {
	b := &eventsv1.BuildEvent{}
	e := &eventsv1.Event{Data: &eventsv1.Event_Build{Build: b}}
	var at, created, started, ended time.Time
	var digest, reason, message string
	var request []byte
	err := rows.Scan(&b.BuildId, &e.Type, sqldb.ScanTime(&at), &e.Endpoint, &e.UserId, &e.WorkspaceId, &b.Engine, &request,
		sqldb.ScanTime(&created), sqldb.ScanTime(&started), sqldb.ScanTime(&ended), &digest, &reason, &message)
	if err != nil {
		return nil, err
	}
	e.Id, e.Time = b.GetBuildId()+"."+e.GetType(), timestamppb.New(at)
	b.CreationTime = timestamppb.New(created)
	if !started.IsZero() {
		b.StartTime = timestamppb.New(started)
	}
	if b.GetEngine() != engine.Index && b.GetEngine() != engine.Mirror {
		r := &buildv1.SubmitBuildRequest{}
		if err := proto.Unmarshal(request, r); err != nil {
			return nil, fmt.Errorf("reading the request of build %s: %w", b.GetBuildId(), err)
		}
		b.Platform = proto.String(r.GetRecipe().GetPlatform()) // not the worker's, which may build for any
	}
	switch e.GetType() {
	case eventbus.BuildStarted, eventbus.MirrorStarted:
		return e, nil
	case eventbus.BuildVerified, eventbus.BuildVerificationFailed: // the build had ended before
		b.EndTime, b.Digest = timestamppb.New(ended), &digest
		if e.GetType() == eventbus.BuildVerificationFailed {
			b.Message = proto.String(verificationFailed)
		}
		return e, nil
	}
	succeeded := e.GetType() == eventbus.BuildSucceeded || e.GetType() == eventbus.MirrorSucceeded
	b.Succeeded, b.EndTime = &succeeded, timestamppb.New(ended)
	if succeeded {
		b.Digest = &digest
		return e, nil
	}
	message = strings.ToValidUTF8(message[:min(len(message), limits.EventText)], "")
	b.Reason, b.Message = &reason, &message
	return e, nil
}

// verificationFailed is the message of an image whose bytes another worker did not make again.
const verificationFailed = "Another worker made other bytes from the same inputs, so that one of the two workers is faulty or compromised. " +
	"Do not use the image until the operator of the server has found out which one"

// RemoveEvents removes published events.
func (s Store) RemoveEvents(ctx context.Context, published []*eventsv1.Event) error {
	return s.db.Tx(ctx, func(tx *sql.Tx) error {
		for _, e := range published {
			if _, err := tx.ExecContext(ctx, `DELETE FROM build_events WHERE build_id = $1 AND type = $2`, e.GetBuild().GetBuildId(), e.GetType()); err != nil {
				return err
			}
		}
		return nil
	})
}

// EventsWaiting returns the number of events that are not published, and the time of the oldest;
// the zero time if there are none.
func (s Store) EventsWaiting(ctx context.Context) (n int, oldest time.Time, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT count(*), coalesce(min(e.at), 0) FROM build_events e JOIN build_builds b ON b.id = e.build_id`).Scan(&n, sqldb.ScanTime(&oldest))
	return n, oldest, s.db.Wrap(err)
}
