package audit

import (
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/platform/api"
)

// A Service implements the calls that read the audit trail.
type Service struct{ Log Log }

// Sizes of a page of events.
const (
	defaultPage = 100
	maxPage     = 1000
)

// ListAuditEvents returns a page of events, newest first.
func (s *Service) ListAuditEvents(ctx context.Context, req *platformv1.ListAuditEventsRequest) (*platformv1.ListAuditEventsResponse, error) {
	q, err := readQuery(req)
	if err != nil {
		return nil, err
	}
	list, err := sqldb.Listing[Record]{Read: listQuery, Scan: scanRecord}.
		All(ctx, s.Log.DB, q.before, q.actor, q.action, q.subject, q.refused, q.since, q.until, q.limit)
	if err != nil {
		return nil, fmt.Errorf("reading the audit trail: %w", err)
	}
	resp := &platformv1.ListAuditEventsResponse{}
	for _, r := range list {
		e, err := r.toProto()
		if err != nil {
			return nil, err
		}
		resp.Events = append(resp.Events, e)
	}
	if len(list) == q.limit {
		resp.Next = wrapperspb.Double(float64(list[len(list)-1].Sequence))
	}
	return resp, nil
}

const listQuery = `SELECT ` + recordColumns + ` FROM platform_audit
	WHERE sequence < $1 AND ($2 = '' OR actor = $2) AND ($3 = '' OR action LIKE $3 ESCAPE '\') AND ($4 = '' OR subject = $4)
		AND (CAST($5 AS bigint) = 0 OR refused = (CAST($5 AS bigint) = 1)) AND at >= $6 AND at < $7
	ORDER BY sequence DESC LIMIT $8`

type query struct {
	before                 int64
	actor, action, subject string
	refused                int64 // 0: all events; 1: only rejected attempts; 2: all except rejected attempts
	since, until           int64
	limit                  int
}

func readQuery(req *platformv1.ListAuditEventsRequest) (query, error) {
	q := query{before: math.MaxInt64, actor: req.GetActor(), subject: req.GetSubject(), until: math.MaxInt64, limit: defaultPage}
	for _, field := range []struct {
		name, value string
		most        int
	}{{"actor", q.actor, 200}, {"action", req.GetAction(), 100}, {"subject", q.subject, 200}} {
		if err := api.CheckLength(field.name, field.value, field.most); err != nil {
			return q, err
		}
	}
	if req.GetMax() < 0 || req.GetBefore() < 0 {
		return q, fault.Invalid.Newf("max and before must not be negative")
	}
	if req.Before != nil {
		q.before = req.GetBefore()
	}
	if req.GetMax() > 0 {
		q.limit = min(int(req.GetMax()), maxPage)
	}
	if prefix, many := strings.CutSuffix(req.GetAction(), "*"); many {
		q.action = escape(prefix) + "%"
	} else {
		q.action = escape(req.GetAction())
	}
	if req.Refused != nil {
		q.refused = 2
		if req.GetRefused() {
			q.refused = 1
		}
	}
	for _, bound := range []struct {
		name, text string
		to         *int64
	}{{"since", req.GetSince(), &q.since}, {"until", req.GetUntil(), &q.until}} {
		if bound.text == "" {
			continue
		}
		at, err := time.Parse(time.RFC3339, bound.text)
		if err != nil {
			return q, fault.Invalid.New(bound.name+" must be a time, e.g. 2027-01-31T12:00:00Z", err)
		}
		*bound.to = sqldb.Micros(at)
	}
	return q, nil
}

// escape returns a LIKE pattern that only matches s.
func escape(s string) string {
	return strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(s)
}

func (r Record) toProto() (*platformv1.AuditEvent, error) {
	before, err := values(r.Before)
	if err != nil {
		return nil, err
	}
	after, err := values(r.After)
	return &platformv1.AuditEvent{
		Sequence: float64(r.Sequence), At: api.Timestamp(r.At), UserId: api.IDValue(r.UserID), Actor: r.Actor, Client: r.Client, Action: r.Action,
		Subject: r.Subject, OrgId: api.IDValue(r.OrgID), WorkspaceId: api.IDValue(r.WorkspaceID), Refused: r.Refused, Reason: r.Reason,
		Before: before, After: after, RequestId: r.RequestID, Hash: hex.EncodeToString(r.Hash),
	}, err
}

// values decodes the stored values of an event. It returns nil for "".
func values(raw string) (*structpb.Struct, error) {
	if raw == "" {
		return nil, nil //nolint:nilnil // the field is then absent
	}
	var v structpb.Struct
	if err := protojson.Unmarshal([]byte(raw), &v); err != nil {
		return nil, fmt.Errorf("decoding the values of an audit event: %w", err)
	}
	return &v, nil
}
