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

// Query is which part of a listing is asked for. Make it with NewQuery.
type Query struct {
	filter  string // in lower case
	largest bool
	max     int
	// after is the last file of the page before; nil for the first page.
	after *File
}

// Asked is what a call says of the part that it wants; the zero value is the first page of
// everything, by path.
type Asked struct {
	Filter, Sort, PageToken string
	Max                     int
}

// NewQuery reads a query; fault.Invalid where it is none.
func NewQuery(a Asked) (Query, error) {
	q := Query{filter: strings.ToLower(a.Filter), max: cmp.Or(a.Max, limits.ListingUsually)}
	switch {
	case a.Max < 0 || a.Max > limits.ListingMost:
		return q, fault.Invalid.Newf("max must be 1 to %d", limits.ListingMost)
	case len(a.Filter) > limits.ListingFilter:
		return q, fault.Invalid.Newf("filter is at most %d bytes long", limits.ListingFilter)
	case a.Sort != "" && a.Sort != "path" && a.Sort != "size":
		return q, fault.Invalid.Newf("sort must be path or size")
	}
	q.largest = a.Sort == "size"
	if a.PageToken == "" {
		return q, nil
	}
	after, err := readToken(a.PageToken)
	if err != nil {
		return q, fault.Invalid.New("pageToken is none that a page of this listing came with", err)
	}
	q.after = &after
	return q, nil
}

// IsFiltered says whether there may be entries that do not fit it.
func (q Query) IsFiltered() bool { return q.filter != "" }

func (q Query) fits(f File) bool {
	return q.filter == "" || strings.Contains(strings.ToLower(f.Path), q.filter)
}

// compare is the order of the query: no two files of a layer are the same in it.
func (q Query) compare(a, b File) int {
	size := 0
	if q.largest {
		size = cmp.Compare(b.Size, a.Size)
	}
	return cmp.Or(size, cmp.Compare(a.Path, b.Path), cmp.Compare(a.at, b.at))
}

// token is where the page ends of which f is the last file.
func (f File) token() string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.Itoa(int(f.at)) + ":" + strconv.FormatInt(f.Size, 10) + ":" + f.Path))
}

// readToken reads a page token: all of a file that its place in a listing follows from.
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
		return File{}, errors.New("it has no such place")
	}
	return File{Path: name, Size: bytes, at: int32(n)}, nil
}
