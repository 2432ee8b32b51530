package identity

import (
	"context"
	"fmt"
)

// Admin is the first user.
type Admin struct {
	Email string
	// Token is the access token to have; "" makes one if the user has none.
	Token string
}

// EnsureAdmin makes the first user, or brings e-mail and token up to date. It
// returns the token when it had to make one, else "".
func (s *Service) EnsureAdmin(ctx context.Context, a Admin) (made string, err error) {
	now := s.deps.Now()
	if err := s.store.upsertUser(ctx, User{ID: AdminID, Name: "admin", Email: a.Email}, now); err != nil {
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

// AdminID is the first user's id.
const AdminID = 1
