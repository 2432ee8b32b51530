package limits

import (
	"fmt"
	"time"
)

// What one person, organisation or workspace may keep at the platform. A list of
// what has no pages of its own shows all that there may be.
const (
	// TokensPerUser is how many access tokens a user may have.
	TokensPerUser = 500
	// SessionsPerUser is how many programs may be signed in as a user; with one more,
	// the one that was silent longest ends.
	SessionsPerUser = 100
	// SessionLife is how long a program stays signed in at most, however often it
	// refreshes its tokens.
	SessionLife = 90 * 24 * time.Hour
)

// accountRows bound what is kept at the platform.
func accountRows() []Row {
	return []Row{
		{
			What: "Access tokens of a user", Bound: fmt.Sprint(TokensPerUser),
			Why: "their list has no pages; a stolen token would fill the database",
		},
		{
			What: "Sessions of a user", Bound: fmt.Sprintf("%d; then the one that was silent longest ends", SessionsPerUser),
			Why: "every sign-in makes one; a stolen token would fill the database",
		},
		{
			What: "Life of a session", Bound: fmt.Sprintf("%d days, and 30 days after its last refresh", SessionLife/(24*time.Hour)),
			Why: "who left an organisation whose provider signed them in does not stay signed in for ever",
		},
	}
}
