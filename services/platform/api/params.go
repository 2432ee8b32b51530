package api

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/paging"
	"slipway.dev/services/internal/sqldb"
)

// A ListRequest is a request for one page of a list that can be searched.
type ListRequest interface {
	paging.Request
	GetSearch() string
}

// ReadPage validates the paging and search parameters of a request. The default page size
// is 100 and the maximum 1,000. It returns fault.Invalid for invalid parameters.
func ReadPage(r ListRequest) (sqldb.Page, error) {
	limit, offset, err := paging.Read(r, 100, 1000)
	if err != nil {
		return sqldb.Page{}, err
	}
	if err := CheckLength("search", r.GetSearch(), 200); err != nil {
		return sqldb.Page{}, err
	}
	return sqldb.Page{Limit: limit, Offset: offset, Like: sqldb.Like(r.GetSearch())}, nil
}

// CheckLength returns fault.Invalid if s has more than limit characters, or contains NUL,
// which PostgreSQL rejects. name is the field's name for the message.
func CheckLength(name, s string, limit int) error {
	if strings.ContainsRune(s, 0) {
		return fault.Invalid.Newf("%s must not contain the character NUL", name)
	}
	if len(s) > limit && utf8.RuneCountInString(s) > limit {
		return fault.Invalid.Newf("%s must have at most %d characters", name, limit)
	}
	return nil
}

// NameTaken returns fault.Conflict for a name that is in use. what is a singular noun with
// its article, such as "a workspace".
func NameTaken(what, name string) error {
	return fault.Conflict.Newf("There is %s named %q already", what, name).WithCode(fault.ObjectTaken)
}

// nameForm matches letters and digits, with single - and _ between them.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9]+([-_][A-Za-z0-9]+)*$`)

// CheckName returns fault.Invalid if name is not a valid name of an organisation or a
// workspace.
func CheckName(name string) error {
	if len(name) < 2 || len(name) > 40 || !nameForm.MatchString(name) {
		return fault.Invalid.Newf("name must have 2 to 40 letters and digits; single - and _ are allowed between them")
	}
	return nil
}

// SetTrimmed sets *to to *from without surrounding white space. A nil from leaves *to as it
// is.
func SetTrimmed(to, from *string) {
	if from != nil {
		*to = strings.TrimSpace(*from)
	}
}
