package listing

import (
	"cmp"
	"encoding/base64"
	"errors"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// A Query selects a page of a listing. Create it with NewQuery.
type Query struct {
	filter string // in lower case
	bySize bool
	max    int
	// after is the last file of the previous page; nil for the first page.
	after *File
}

// Options are the parameters of a query. The zero value selects the first page of all files,
// ordered by path.
type Options struct {
	Filter, Sort, PageToken string
	Max                     int
}

// NewQuery returns a query; fault.Invalid if the options are invalid.
func NewQuery(a Options) (Query, error) {
	q := Query{filter: strings.ToLower(a.Filter), max: cmp.Or(a.Max, limits.ListingUsually)}
	switch {
	case a.Max < 0 || a.Max > limits.ListingMost:
		return q, fault.Invalid.Newf("max must be 1 to %d", limits.ListingMost)
	case len(a.Filter) > limits.ListingFilter:
		return q, fault.Invalid.Newf("filter must have at most %d bytes", limits.ListingFilter)
	case a.Sort != "" && a.Sort != "path" && a.Sort != "size":
		return q, fault.Invalid.Newf("sort must be path or size")
	}
	q.bySize = a.Sort == "size"
	if a.PageToken == "" {
		return q, nil
	}
	after, err := readToken(a.PageToken)
	if err != nil {
		return q, fault.Invalid.New("pageToken is not valid; use the nextPageToken of the previous page", err)
	}
	q.after = &after
	return q, nil
}

// IsFiltered reports whether the query has a filter.
func (q Query) IsFiltered() bool { return q.filter != "" }

func (q Query) matches(f File) bool {
	return q.filter == "" || strings.Contains(strings.ToLower(f.Path), q.filter)
}

// compare compares two files in the order of the query, which is total.
func (q Query) compare(a, b File) int {
	size := 0
	if q.bySize {
		size = cmp.Compare(b.Size, a.Size)
	}
	return cmp.Or(size, cmp.Compare(a.Path, b.Path), cmp.Compare(a.at, b.at))
}

// token returns the token of the page that follows f.
func (f File) token() string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.Itoa(int(f.at)) + ":" + strconv.FormatInt(f.Size, 10) + ":" + f.Path))
}

// readToken decodes a page token: the fields of a file that determine its position.
func readToken(text string) (File, error) {
	if len(text) > limits.ListingToken {
		return File{}, errors.New("it is too long")
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return File{}, err
	}
	at, rest, _ := strings.Cut(string(raw), ":")
	size, name, _ := strings.Cut(rest, ":")
	n, err := strconv.ParseInt(at, 10, 32)
	if err != nil {
		return File{}, err
	}
	bytes, err := strconv.ParseInt(size, 10, 64)
	if err != nil {
		return File{}, err
	}
	if n < 0 || n > math.MaxInt32 || bytes < 0 || name == "" || !utf8.ValidString(name) {
		return File{}, errors.New("it has an invalid position")
	}
	return File{Path: name, Size: bytes, at: int32(n)}, nil
}
