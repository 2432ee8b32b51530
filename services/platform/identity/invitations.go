package identity

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"slipway.dev/services/platform/audit"
)

// Invitations are roles that wait for a user with an e-mail address. Addresses have their ASCII
// letters in lower case.
type Invitations interface {
	// HasInvitation reports whether a role waits for an address.
	HasInvitation(ctx context.Context, address string) (bool, error)
	// AcceptInvitations gives a user the roles that wait for an address.
	AcceptInvitations(ctx context.Context, u User, address string) error
	// AcceptInvitationsIn is like AcceptInvitations in the transaction that creates the user. It
	// returns the audit events to append, and none if no role waits for the address.
	AcceptInvitationsIn(ctx context.Context, t *sql.Tx, u User, address string) ([]audit.Event, error)
}

// FollowInvitations enables giving new users, and users who sign in at the provider, the roles that
// wait for their addresses. It must be called before the service is used.
func (s *Service) FollowInvitations(i Invitations) { s.invitations = i }

// byInvitation is the entry of AutoCreate that creates users who are invited.
const byInvitation = "invitations"

// createsByInvitation reports whether the first sign-in with a verified address creates a user
// because the address is invited.
func (s *Service) createsByInvitation(ctx context.Context, email string) (bool, error) {
	if s.invitations == nil || !slices.Contains(s.oidc.AutoCreate, byInvitation) {
		return false, nil
	}
	return s.invitations.HasInvitation(ctx, lowerASCII(email))
}

// acceptInvitationsIn gives a user who is created the roles that wait for the user's address.
func (s *Service) acceptInvitationsIn(ctx context.Context, t *sql.Tx, u User) ([]audit.Event, error) {
	if s.invitations == nil {
		return nil, nil
	}
	return s.invitations.AcceptInvitationsIn(ctx, t, u, lowerASCII(u.Email))
}

// acceptInvitations gives a user who has signed in the roles that wait for the address that the
// provider has verified, which may differ from the address of the user's account.
func (s *Service) acceptInvitations(ctx context.Context, u User, in signedIn) error {
	email, verified, err := emailOf(in.IDToken)
	if err != nil || !verified || s.invitations == nil {
		return nil //nolint:nilerr // the user is known by the subject, whatever the other claims are
	}
	if err := s.invitations.AcceptInvitations(withProvider(ctx, in.IDToken), u, lowerASCII(email)); err != nil {
		return fmt.Errorf("accepting invitations: %w", err)
	}
	return nil
}
