package identity

import (
	"context"
	"database/sql"
	"slices"
	"strings"

	"slipway.dev/services/platform/audit"
)

// Invitations are roles that wait for a user with an e-mail address. Addresses are as AddressKey
// returns them.
type Invitations interface {
	// HasInvitation reports whether a role waits for an address.
	HasInvitation(ctx context.Context, address string) (bool, error)
	// AcceptInvitations gives a user the roles that wait for an address.
	AcceptInvitations(ctx context.Context, u User, address string) error
	// AcceptInvitationsIn is like AcceptInvitations in the transaction that creates the user.
	AcceptInvitationsIn(ctx context.Context, t *sql.Tx, u User, address string) (Accepted, error)
	// RevokeInvitationsIn deletes all invitations of an address in a transaction, and returns the
	// audit events to append.
	RevokeInvitationsIn(ctx context.Context, t *sql.Tx, address string) ([]audit.Event, error)
}

// Accepted is the result of accepting invitations.
type Accepted struct {
	// Events are the audit events to append.
	Events []audit.Event
	// Granted reports whether the user got a role.
	Granted bool
	// Full reports whether an invitation still waits because its organisation or workspace has as
	// many users as are allowed.
	Full bool
}

// FollowInvitations enables giving new users, and users who sign in at the provider, the roles that
// wait for their addresses. It must be called before the service is used.
func (s *Service) FollowInvitations(i Invitations) { s.invitations = i }

// byInvitation is the entry of AutoCreate that creates users who are invited. With "@" and a domain
// it creates only those with an address of this domain.
const byInvitation = "invitations"

// createsInvited reports whether an invitation lets a user with a verified address in.
func (p *provider) createsInvited(email string) bool {
	_, domain, _ := cutLast(lowerASCII(email), "@")
	return slices.ContainsFunc(p.AutoCreate, func(entry string) bool {
		entry, allowed, isLimited := strings.Cut(lowerASCII(entry), "@")
		return entry == byInvitation && (!isLimited || allowed == domain)
	})
}

// createsByInvitation reports whether the first sign-in with a verified address creates a user
// because the address is invited.
func (s *Service) createsByInvitation(ctx context.Context, email string) (bool, error) {
	if s.invitations == nil || !s.oidc.createsInvited(email) {
		return false, nil
	}
	return s.invitations.HasInvitation(ctx, AddressKey(email))
}

// acceptInvitationsIn gives a user who is created the roles that wait for the user's address.
func (s *Service) acceptInvitationsIn(ctx context.Context, t *sql.Tx, u User) (Accepted, error) {
	if s.invitations == nil {
		return Accepted{}, nil
	}
	return s.invitations.AcceptInvitationsIn(ctx, t, u, AddressKey(u.Email))
}

// acceptInvitations gives an existing user the roles that wait for an address. It only logs errors:
// what others have invited the user to must not prevent a sign-in.
func (s *Service) acceptInvitations(ctx context.Context, u User, email string) {
	if s.invitations == nil {
		return
	}
	if err := s.invitations.AcceptInvitations(ctx, u, AddressKey(email)); err != nil {
		s.deps.Log.ErrorContext(ctx, "Invitations were not accepted; they wait for the user's next sign-in", "user", u.Name, "err", err)
	}
}

// acceptInvitationsOf gives a user who has signed in the roles that wait for the address that the
// provider has verified, which may differ from the address of the user's account.
func (s *Service) acceptInvitationsOf(ctx context.Context, u User, in signedIn) {
	if email, verified, err := emailOf(in.IDToken); err == nil && verified {
		s.acceptInvitations(withProvider(ctx, in.IDToken), u, email)
	}
}
