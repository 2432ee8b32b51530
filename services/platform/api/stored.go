package api

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/types/known/structpb"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sqldb"
)

// Stored is a kind of objects whose number is limited. The value is part of the REST contract: the
// details of fault.ObjectLimit have it as "what".
type Stored string

// The kinds of objects whose number is limited.
const (
	AccessTokens  Stored = "accessTokens"
	Robots        Stored = "robots"
	RobotTokens   Stored = "robotTokens"
	Organizations Stored = "organizations"
	Members       Stored = "members"
	Workspaces    Stored = "workspaces"
	Participants  Stored = "participants"
	Credentials   Stored = "credentials"
	Webhooks      Stored = "webhooks"
	Runs          Stored = "runs"
	Limits        Stored = "limits"
)

// StoredKinds returns all kinds of objects whose number is limited.
func StoredKinds() []Stored {
	return []Stored{AccessTokens, Robots, RobotTokens, Organizations, Members, Workspaces, Participants, Credentials, Webhooks, Runs, Limits}
}

// limit returns the maximum number of objects, and a plural noun for messages.
func (s Stored) limit() (most int, noun string) {
	switch s {
	case AccessTokens:
		return limits.TokensPerUser, "access tokens"
	case Robots:
		return limits.RobotsPerOwner, "robots"
	case RobotTokens:
		return limits.TokensPerRobot, "access tokens of a robot"
	case Organizations:
		return limits.OrganizationsPerUser, "organisations of a user"
	case Members:
		return limits.MembersPerOrganization, "members of an organisation"
	case Workspaces:
		return limits.WorkspacesPerOrganization, "workspaces of an organisation"
	case Participants:
		return limits.ParticipantsPerWorkspace, "participants of a workspace"
	case Credentials:
		return limits.CredentialsPerWorkspace, "credentials of a workspace"
	case Webhooks:
		return limits.WebhooksPerOwner, "webhooks"
	case Runs:
		return limits.RunsPerWorkspace, "runs of a workspace"
	case Limits:
		return limits.OwnLimits, "limits"
	}
	return 0, string(s)
}

// Check returns fault.Invalid with the code fault.ObjectLimit if count has reached the limit.
func (s Stored) Check(count int) error {
	most, noun := s.limit()
	if count < most {
		return nil
	}
	return fault.Invalid.Newf("Too many %s: the limit is %d; delete unused ones first", noun, most).WithCode(fault.ObjectLimit).
		WithDetail(&structpb.Struct{Fields: map[string]*structpb.Value{"what": structpb.NewStringValue(string(s)), "limit": structpb.NewNumberValue(float64(most))}})
}

// CheckRows is like Check for the number of rows of a table. from is the SQL that follows FROM,
// with args for its parameters; it must never contain user input. The check does not lock:
// concurrent calls may each add a row beyond the limit.
func (s Stored) CheckRows(ctx context.Context, db *sqldb.DB, from string, args ...any) error {
	var n int
	if err := db.QueryRowContext(ctx, `SELECT count(*) FROM `+from, args...).Scan(&n); err != nil {
		_, noun := s.limit()
		return fmt.Errorf("counting %s: %w", noun, db.Wrap(err))
	}
	return s.Check(n)
}
