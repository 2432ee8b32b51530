package platform

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"slipway.dev/services/internal/fault"
)

// paged are the parameters of a list.
type paged interface {
	GetMax() int32
	GetOffset() int32
	GetSearch() string
	GetPage() int32
	GetPageSize() int32
}

// pageOf reads the parameters of a list.
func pageOf(r paged) (page, error) {
	limit, offset := r.GetMax(), r.GetOffset()
	if r.GetPageSize() != 0 {
		limit = r.GetPageSize()
	}
	if limit < 0 || offset < 0 || r.GetPage() < 0 {
		return page{}, fault.Invalid.Newf("max, offset, page and pageSize must not be negative")
	}
	if limit == 0 {
		limit = 100
	}
	limit = min(limit, 1000)
	if r.GetPage() > 1 {
		offset = (min(r.GetPage(), 1_000_000) - 1) * limit
	}
	if err := within("search", r.GetSearch(), 200); err != nil {
		return page{}, err
	}
	return page{limit: int(limit), offset: int(offset), like: like(r.GetSearch())}, nil
}

// within refuses a text that is too long, in characters, and one that no database
// takes.
func within(name, s string, limit int) error {
	if strings.ContainsRune(s, 0) {
		return fault.Invalid.Newf("%s must not hold the character NUL", name)
	}
	if len(s) > limit && utf8.RuneCountInString(s) > limit {
		return fault.Invalid.Newf("%s must have at most %d characters", name, limit)
	}
	return nil
}

// room refuses one more where there are as many as there may be.
func room(what string, there, limit int) error {
	if there >= limit {
		return fault.Invalid.Newf("There may be %d %s at most; delete some that nobody needs", limit, what)
	}
	return nil
}

// nameForm is letters and digits, with single - and _ between them.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9]+([-_][A-Za-z0-9]+)*$`)

// checkName refuses what cannot be the name of an organisation or a workspace.
func checkName(name string) error {
	if len(name) < 2 || len(name) > 40 || !nameForm.MatchString(name) {
		return fault.Invalid.Newf("name must have 2 to 40 letters and digits; single - and _ may stand between them")
	}
	return nil
}

// set overwrites what is given.
func set(to, from *string) {
	if from != nil {
		*to = strings.TrimSpace(*from)
	}
}
