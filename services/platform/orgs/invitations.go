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

// invite stores an invitation to an organisation or a workspace from the caller, and returns it. If
// a user with the address was created at the same time, it gives the user the role and returns the
// user. It returns fault.Conflict if the address is invited already.
func (s *Service) invite(ctx context.Context, i invitation) (invitation, identity.User, error) {
	now, inviter := s.deps.Now(), PrincipalFrom(ctx).User
	i.id, i.inviter, i.invited = api.NewID(), inviter.ID, invited{by: inviter.Name, at: now, expires: now.Add(limits.InvitationLife)}
	created, err := s.store.insertInvitation(ctx, i)
	if err != nil {
		return i, identity.User{}, fmt.Errorf("writing an invitation to %d: %w", i.orgID, err)
	}
	if !created {
		return i, identity.User{}, fault.Conflict.Newf("%s is invited already; remove the invitation first to renew it", i.email).WithCode(fault.ObjectTaken)
	}
	u, _, err := s.deps.Users.UserOrAddress(ctx, i.email)
	if err != nil || u.ID == 0 || !u.Disabled.IsZero() {
		return i, identity.User{}, nil //nolint:nilerr // the invitation is stored
	}
	return i, u, s.AcceptInvitations(ctx, u, i.email)
}

// changeRole changes the role of an invitation.
func (s *Service) changeRole(ctx context.Context, i invitation, role string) error {
	done, err := s.store.setInvitationRole(ctx, i, role, PrincipalFrom(ctx).User, s.deps.Now())
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

// errAccepted is returned if another call ends or changes an invitation at the same moment.
func errAccepted() error {
	return fault.NotFound.Newf("The invitation was just changed, accepted or revoked; list the members again")
}

// HasInvitation reports whether an invitation waits for an address, which is as
// identity.AddressKey returns it.
func (s *Service) HasInvitation(ctx context.Context, address string) (bool, error) {
	list, err := s.store.waiting(ctx, s.deps.DB, address, s.deps.Now())
	if err != nil {
		return false, fmt.Errorf("reading the invitations of an address: %w", err)
	}
	return len(list) > 0, nil
}

// AcceptInvitations gives a user the roles that wait for an address of the user, and deletes
// these invitations, each in a transaction of its own. An error with one of them does not prevent
// the others.
func (s *Service) AcceptInvitations(ctx context.Context, u identity.User, address string) error {
	list, err := s.store.waiting(ctx, s.deps.DB, address, s.deps.Now())
	if err != nil {
		return fmt.Errorf("reading the invitations of an address: %w", err)
	}
	var failed []error
	var isGranted bool
	for _, i := range list {
		var done identity.Accepted
		err := s.deps.DB.Tx(ctx, func(t *sql.Tx) (err error) {
			if done, err = s.accept(ctx, t, i, u); err != nil {
				return err
			}
			return s.deps.Audit.AppendAll(ctx, t, done.Events)
		})
		if err != nil {
			failed = append(failed, fmt.Errorf("accepting invitation %d of user %d: %w", i.id, u.ID, err))
			continue
		}
		isGranted = isGranted || done.Granted
	}
	if isGranted {
		s.deps.Notifier.Notify(ctx, caller.Change{UserID: u.ID})
	}
	return errors.Join(failed...)
}

// AcceptInvitationsIn is like AcceptInvitations in a transaction of the caller, who must append
// the returned audit events at its end. An invitation to an organisation or a workspace that has
// as many users as are allowed still waits after the call.
func (s *Service) AcceptInvitationsIn(ctx context.Context, t *sql.Tx, u identity.User, address string) (out identity.Accepted, err error) {
	list, err := s.store.waiting(ctx, t, address, s.deps.Now())
	if err != nil {
		return out, err
	}
	for _, i := range list {
		done, err := s.accept(ctx, t, i, u)
		if err != nil {
			return out, err
		}
		out.Events = append(out.Events, done.Events...)
		out.Granted, out.Full = out.Granted || done.Granted, out.Full || done.Full
	}
	return out, nil
}

// accept is store.accept, and logs an invitation that still waits.
func (s *Service) accept(ctx context.Context, t *sql.Tx, i invitation, u identity.User) (identity.Accepted, error) {
	done, err := s.store.accept(ctx, t, i, u, s.deps.Now())
	if done.Full {
		s.deps.Log.WarnContext(ctx, "An invitation waits, since the organisation or workspace has as many users as are allowed", "org_id", i.orgID, "workspace_id", i.workspaceID)
	}
	return done, err
}

// RevokeInvitationsIn deletes the invitations of an address in a transaction of the caller, who must
// append the returned audit events at its end.
func (s *Service) RevokeInvitationsIn(ctx context.Context, t *sql.Tx, address string) ([]audit.Event, error) {
	return revokeInvitations(ctx, t, `email = $1`, address)
}

// Sweep deletes expired invitations and removals. Replicas may call it concurrently.
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
