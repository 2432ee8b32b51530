package orgs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/platform/api"
	"slipway.dev/services/platform/audit"
	"slipway.dev/services/platform/identity"
)

// sweptInvitations is the maximum number of expired invitations that one transaction deletes.
const sweptInvitations = 100

// toProto returns nil for the zero value.
func (i invited) toProto() *platformv1.Invitation {
	if i.expires.IsZero() {
		return nil
	}
	return &platformv1.Invitation{InvitedBy: i.by, DateCreated: api.Timestamp(i.at), Expires: api.Timestamp(i.expires)}
}

// member returns the invitation as an entry of the list of members.
func (i invitation) member() member {
	return member{id: i.id, orgID: i.orgID, role: i.role, user: identity.User{Name: i.email, Email: i.email}, invited: i.invited}
}

// participant returns the invitation as an entry of the list of participants. m is the invitation
// of the address to the organisation, or has no id.
func (i invitation) participant(m member) participant {
	return participant{
		id: i.id, workspaceID: i.workspaceID, role: i.role, user: identity.User{Name: i.email, Email: i.email},
		memberID: m.id, orgRole: m.role, invited: i.invited,
	}
}

// invite stores an invitation to an organisation or a workspace from the caller, and returns it.
// It returns fault.Conflict if the address is invited already.
func (s *Service) invite(ctx context.Context, i invitation) (invitation, error) {
	if err := api.Invitations.CheckRows(ctx, s.deps.DB, `platform_invitations WHERE org_id = $1`, i.orgID); err != nil {
		return i, err
	}
	now := s.deps.Now()
	i.id, i.invited = api.NewID(), invited{by: PrincipalFrom(ctx).User.Name, at: now, expires: now.Add(limits.InvitationLife)}
	created, err := s.store.insertInvitation(ctx, i)
	if err != nil {
		return i, fmt.Errorf("writing an invitation to %d: %w", i.orgID, err)
	}
	if !created {
		return i, fault.Conflict.Newf("%s is invited already; remove the invitation first to renew it", i.email).WithCode(fault.ObjectTaken)
	}
	return i, nil
}

// changeRole changes the role of an invitation.
func (s *Service) changeRole(ctx context.Context, i invitation, role string) error {
	done, err := s.store.setInvitationRole(ctx, i, role)
	if err != nil {
		return fmt.Errorf("writing invitation %d: %w", i.id, err)
	}
	if !done {
		return errAccepted()
	}
	return nil
}

// revoke deletes an invitation.
func (s *Service) revoke(ctx context.Context, i invitation) error {
	done, err := s.store.deleteInvitation(ctx, i)
	if err != nil {
		return fmt.Errorf("deleting invitation %d: %w", i.id, err)
	}
	if !done {
		return errAccepted()
	}
	return nil
}

// errAccepted is returned if another call ends an invitation at the same moment.
func errAccepted() error {
	return fault.NotFound.Newf("The invitation was just accepted or revoked; list the members again")
}

// HasInvitation reports whether an invitation waits for an address, which is as
// identity.Service.UserOrAddress returns it.
func (s *Service) HasInvitation(ctx context.Context, address string) (bool, error) {
	has, err := s.store.hasInvitation(ctx, address, s.deps.Now())
	if err != nil {
		return false, fmt.Errorf("reading the invitations of an address: %w", err)
	}
	return has, nil
}

// AcceptInvitations gives a user the roles that wait for an address of the user, and deletes
// these invitations.
func (s *Service) AcceptInvitations(ctx context.Context, u identity.User, address string) error {
	if has, err := s.HasInvitation(ctx, address); err != nil || !has {
		return err
	}
	var events []audit.Event
	err := s.deps.DB.Tx(ctx, func(t *sql.Tx) (err error) {
		if events, err = s.AcceptInvitationsIn(ctx, t, u, address); err != nil {
			return err
		}
		for _, e := range events {
			if err := s.deps.Audit.Append(ctx, t, e); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("accepting the invitations of user %d: %w", u.ID, err)
	}
	if len(events) > 0 {
		s.deps.Notifier.Notify(ctx, caller.Change{UserID: u.ID})
	}
	return nil
}

// AcceptInvitationsIn is like AcceptInvitations in a transaction of the caller, who must append
// the returned audit events at its end. An invitation to an organisation or a workspace that has
// as many users as are allowed still waits after the call.
func (s *Service) AcceptInvitationsIn(ctx context.Context, t *sql.Tx, u identity.User, address string) ([]audit.Event, error) {
	now := s.deps.Now()
	list, err := waiting(ctx, t, address, now)
	if err != nil {
		return nil, err
	}
	var out []audit.Event
	for _, i := range list {
		if err := lockOrg(ctx, t, i.orgID); err != nil {
			return nil, err
		}
		full, err := i.isFull(ctx, t)
		if err != nil {
			return nil, err
		}
		if full {
			s.deps.Log.WarnContext(ctx, "An invitation waits, since the organisation or workspace has as many users as are allowed", "org_id", i.orgID, "workspace_id", i.workspaceID)
			continue
		}
		events, err := s.store.accept(ctx, t, i, u, now)
		if err != nil {
			return nil, err
		}
		out = append(out, events...)
	}
	return out, nil
}

// isFull reports whether an invitation's organisation or workspace can have no more users.
func (i invitation) isFull(ctx context.Context, t *sql.Tx) (bool, error) {
	kind, from, id := api.Members, `SELECT count(*) FROM platform_members WHERE org_id = $1`, i.orgID
	if i.workspaceID != 0 {
		kind, from, id = api.Participants, `SELECT count(*) FROM platform_participants WHERE workspace_id = $1`, i.workspaceID
	}
	var n int
	if err := t.QueryRowContext(ctx, from, id).Scan(&n); err != nil {
		return false, err
	}
	err := kind.Check(n)
	if errors.Is(err, fault.Invalid) {
		return true, nil
	}
	return false, err
}

// Sweep deletes expired invitations. Replicas may call it concurrently.
func (s *Service) Sweep(ctx context.Context) error {
	for {
		more, err := s.store.sweepInvitations(ctx, s.deps.Now(), sweptInvitations)
		if err != nil {
			return fmt.Errorf("deleting expired invitations: %w", err)
		}
		if !more {
			return nil
		}
	}
}
