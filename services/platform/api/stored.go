package api

import (
	"context"
	"fmt"
	"maps"
	"slices"

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
	Invitations   Stored = "invitations"
	// WorkspaceInvitations are those to one workspace, and AddressInvitations those of one address.
	WorkspaceInvitations Stored = "workspaceInvitations"
	AddressInvitations   Stored = "addressInvitations"
	Workspaces           Stored = "workspaces"
	Participants         Stored = "participants"
	Credentials          Stored = "credentials"
	Webhooks             Stored = "webhooks"
	Runs                 Stored = "runs"
	Limits               Stored = "limits"
	VexDocuments         Stored = "vexDocuments"
)

// A storedLimit is the maximum number of objects of a kind.
type storedLimit struct {
	max    int
	noun   string // plural, for messages
	advice string
}

const deleteUnused = "delete unused ones first"

// storedLimits returns the limits of all kinds.
func storedLimits() map[Stored]storedLimit {
	return map[Stored]storedLimit{
		AccessTokens:  {limits.TokensPerUser, "access tokens", deleteUnused},
		Robots:        {limits.RobotsPerOwner, "robots", deleteUnused},
		RobotTokens:   {limits.TokensPerRobot, "access tokens of a robot", deleteUnused},
		Organizations: {limits.OrganizationsPerUser, "organisations that you own", deleteUnused},
		Members:       {limits.MembersPerOrganization, "members of an organisation", "remove members first"},
		Invitations:   {limits.InvitationsPerOrganization, "invitations to an organisation and its workspaces", "remove some first"},

		WorkspaceInvitations: {limits.InvitationsPerWorkspace, "invitations to a workspace", "remove some first"},
		AddressInvitations:   {limits.InvitationsPerAddress, "invitations of an e-mail address", "an operator can create the user"},
		Workspaces:           {limits.WorkspacesPerOrganization, "workspaces of an organisation", deleteUnused},
		Participants:         {limits.ParticipantsPerWorkspace, "participants of a workspace", "remove participants first"},
		Credentials:          {limits.CredentialsPerWorkspace, "credentials of a workspace", deleteUnused},
		Webhooks:             {limits.WebhooksPerOwner, "webhooks", deleteUnused},
		Runs:                 {limits.RunsPerWorkspace, "runs of a workspace", deleteUnused},
		Limits:               {limits.OwnLimits, "limits of organisations, workspaces and users", deleteUnused},
		VexDocuments:         {limits.VEXPerOwner, "VEX documents", deleteUnused},
	}
}

// StoredKinds returns all kinds of objects whose number is limited, in alphabetical order.
func StoredKinds() []Stored { return slices.Sorted(maps.Keys(storedLimits())) }

// Check returns fault.Invalid with the code fault.ObjectLimit if count has reached the limit.
func (s Stored) Check(count int) error {
	limit, ok := storedLimits()[s]
	if !ok {
		return fmt.Errorf("the kind %q of objects has no limit", string(s))
	}
	if count < limit.max {
		return nil
	}
	return fault.Invalid.Newf("Too many %s: the limit is %d; %s", limit.noun, limit.max, limit.advice).WithCode(fault.ObjectLimit).
		WithDetail(&structpb.Struct{Fields: map[string]*structpb.Value{"what": structpb.NewStringValue(string(s)), "limit": structpb.NewNumberValue(float64(limit.max))}})
}

// CheckRows is like Check for the number of rows of a table. from is the SQL that follows FROM,
// with args for its parameters; it must never contain user input. The check does not lock:
// concurrent calls may each add a row beyond the limit.
func (s Stored) CheckRows(ctx context.Context, db *sqldb.DB, from string, args ...any) error {
	var n int
	if err := db.QueryRowContext(ctx, `SELECT count(*) FROM `+from, args...).Scan(&n); err != nil {
		return fmt.Errorf("counting %s: %w", storedLimits()[s].noun, db.Wrap(err))
	}
	return s.Check(n)
}
