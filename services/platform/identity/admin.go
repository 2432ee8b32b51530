package identity

import (
	"context"
	"fmt"

	"slipway.dev/services/platform/audit"
)

// Admin describes the first user.
type Admin struct {
	Email string
	// Token is a configured access token. If it is "", a token is created if the user has none.
	Token string
}

// EnsureAdmin creates the first user, or updates the user's e-mail address and configured
// token. It returns the token if it created one, and "" otherwise.
func (s *Service) EnsureAdmin(ctx context.Context, a Admin) (created string, err error) {
	now := s.deps.Now()
	ctx = audit.WithActor(ctx, audit.Actor{Name: "slipwayd"})
	if err := s.store.upsertAdmin(ctx, User{ID: AdminID, Name: "admin", Email: a.Email}, now); err != nil {
		return "", fmt.Errorf("writing the first user: %w", err)
	}
	if a.Token != "" {
		t, err := parseToken(a.Token)
		if err != nil {
			return "", fmt.Errorf("the first user's token: %w", err)
		}
		return "", s.store.putToken(ctx, t, AdminID, "configured", now)
	}
	has, err := s.store.hasToken(ctx, AdminID)
	if err != nil || has {
		return "", err
	}
	t := newToken(1)
	return t.String(), s.store.putToken(ctx, t, AdminID, "first", now)
}

// AdminID is the id of the first user.
const AdminID = 1
