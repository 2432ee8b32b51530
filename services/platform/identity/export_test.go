package identity

import "context"

// TokenQueries returns the SQL queries that look up the owner of a token by name. The first
// parameter is the id of the token or session.
func TokenQueries() map[string]string {
	return map[string]string{"token": tokenQuery, "session": sessionQuery}
}

// LinkLogin links a subject of an issuer to a user. It returns false if another subject is
// linked to the user.
func (s *Service) LinkLogin(ctx context.Context, issuer, subject string, userID int64) (bool, error) {
	return s.store.linkLogin(ctx, issuer, subject, User{ID: userID}, s.deps.Now())
}
