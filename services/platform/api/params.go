package api

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/paging"
	"slipway.dev/services/internal/sqldb"
)

// Paged are the parameters of a list.
type Paged interface {
	paging.Request
	GetSearch() string
}

// PageOf reads the parameters of a list.
func PageOf(r Paged) (sqldb.Page, error) {
	limit, offset, err := paging.Read(r, 100, 1000)
	if err != nil {
		return sqldb.Page{}, err
	}
	if err := Within("search", r.GetSearch(), 200); err != nil {
		return sqldb.Page{}, err
	}
	return sqldb.Page{Limit: limit, Offset: offset, Like: sqldb.Like(r.GetSearch())}, nil
}

// Within refuses a text that is too long, in characters, and one that no database
// takes.
func Within(name, s string, limit int) error {
	if strings.ContainsRune(s, 0) {
		return fault.Invalid.Newf("%s must not hold the character NUL", name)
	}
	if len(s) > limit && utf8.RuneCountInString(s) > limit {
		return fault.Invalid.Newf("%s must have at most %d characters", name, limit)
	}
	return nil
}

// CheckCount refuses one more where there are as many as there may be.
func CheckCount(what string, there, limit int) error {
	if there >= limit {
		return fault.Invalid.Newf("There may be %d %s at most; delete some that nobody needs", limit, what)
	}
	return nil
}

// CheckRows refuses one more row where a table has as many as there may be. Those who
// ask at the same moment may have one more each. what and from are ours, never a
// user's.
func CheckRows(ctx context.Context, db *sqldb.DB, what string, limit int, from string, args ...any) error {
	var n int
	if err := db.QueryRowContext(ctx, `SELECT count(*) FROM `+from, args...).Scan(&n); err != nil {
		return fmt.Errorf("counting %s: %w", what, db.Lost(err))
	}
	return CheckCount(what, n, limit)
}

// Taken is fault.Conflict for a name that another has.
func Taken(what, name string) error {
	return fault.Conflict.Newf("There is %s named %q already", what, name)
}

// nameForm is letters and digits, with single - and _ between them.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9]+([-_][A-Za-z0-9]+)*$`)

// CheckName refuses what cannot be the name of an organisation or a workspace.
func CheckName(name string) error {
	if len(name) < 2 || len(name) > 40 || !nameForm.MatchString(name) {
		return fault.Invalid.Newf("name must have 2 to 40 letters and digits; single - and _ may stand between them")
	}
	return nil
}

// Set overwrites what is given.
func Set(to, from *string) {
	if from != nil {
		*to = strings.TrimSpace(*from)
	}
}
