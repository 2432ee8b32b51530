package runs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
)

// An object is a JSON object that a run reported. Methods that return a member of some type
// treat a member of another type as missing.
type object map[string]any

// Maximum lengths of strings, in bytes. Longer strings are truncated.
const (
	maxRunString    = 1 << 20
	maxTaskString   = 64 << 10
	maxColumnString = 500
	// maxSearchString is the longest string that PostgreSQL accepts in an index with other
	// columns.
	maxSearchString = 1900
)

// parseObject decodes a request body. It replaces invalid UTF-8, and returns fault.Invalid only
// if the body is not a JSON object.
func parseObject(raw []byte) (object, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var o object
	err := dec.Decode(&o)
	if err == nil && o == nil {
		err = errors.New("null")
	}
	if _, tail := dec.Token(); err == nil && !errors.Is(tail, io.EOF) {
		err = errors.New("the object is followed by more data")
	}
	if err != nil {
		return nil, fault.Invalid.New("The request body must be a JSON object", err)
	}
	return o, nil
}

// readObject decodes a stored object; "" is decoded as an empty one.
func readObject(s string) (object, error) {
	if s == "" {
		return object{}, nil
	}
	return parseObject([]byte(s))
}

// String returns the object as JSON, in the stored form.
func (o object) String() string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(map[string]any(o)); err != nil {
		return "{}" // unreachable: decoded JSON can be encoded
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// truncate deletes the largest members of an object until its JSON has about limit bytes or fewer.
// Reports are never rejected for their size, since that would fail the run.
func (o object) truncate(limit int) {
	total, sizes := len("{}"), map[string]int{}
	for name, v := range o {
		sizes[name] = len(object{name: v}.String()) - 1 // a comma instead of two braces
		total += sizes[name]
	}
	if total <= limit {
		return
	}
	for _, name := range slices.SortedFunc(maps.Keys(sizes), func(a, b string) int {
		return cmp.Or(cmp.Compare(sizes[b], sizes[a]), cmp.Compare(a, b))
	}) {
		if total <= limit {
			return
		}
		total -= sizes[name]
		delete(o, name)
	}
}

// toProto returns the object for a response.
func (o object) toProto() *platformv1.Document {
	return &platformv1.Document{Json: []byte(o.String())}
}

// joinStored returns a stored object together with additional members, which the object must
// not have. It does not decode the object, since a list contains many objects.
func joinStored(stored string, more object) *platformv1.Document {
	if len(stored) <= len("{}") {
		return more.toProto()
	}
	return &platformv1.Document{Json: []byte(strings.TrimSuffix(stored, "}") + "," + strings.TrimPrefix(more.String(), "{"))}
}

func (o object) text(name string) string {
	s, _ := o[name].(string)
	return s
}

// column returns a member in the form of a database column: truncated, and without NUL, which
// PostgreSQL rejects.
func (o object) column(name string) string {
	return truncate(strings.ReplaceAll(o.text(name), "\x00", ""), maxColumnString)
}

func (o object) object(name string) object {
	m, _ := o[name].(map[string]any)
	return m
}

func (o object) list(name string) []any {
	l, _ := o[name].([]any)
	return l
}

// number returns a whole number, which may also be written as 1.0 or "1".
func (o object) number(name string) (int64, bool) {
	text, isText := o[name].(string)
	if n, ok := o[name].(json.Number); ok {
		text, isText = n.String(), true
	}
	if !isText {
		return 0, false
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.Abs(f) > 1<<53 {
		return 0, false
	}
	return int64(f), true
}

// fraction returns a number; 0 if it is missing.
func (o object) fraction(name string) float64 {
	n, _ := o[name].(json.Number)
	f, err := n.Float64()
	if err != nil {
		return 0
	}
	return f
}

// time returns a time in RFC 3339, or in milliseconds since the epoch; the zero time if it is
// missing.
func (o object) time(name string) time.Time {
	if t, err := time.Parse(time.RFC3339, o.text(name)); err == nil {
		return t.UTC()
	}
	if n, ok := o[name].(json.Number); ok {
		if ms, err := n.Int64(); err == nil && ms > 0 && ms < 1<<43 {
			return time.UnixMilli(ms).UTC()
		}
	}
	return time.Time{}
}

// merge copies the members of from to o, except for null members. If keepExisting is set, it
// does not overwrite members.
func (o object) merge(from object, keepExisting bool) {
	for name, v := range from {
		if _, has := o[name]; v == nil || keepExisting && has {
			continue
		}
		o[name] = v
	}
}

// truncateStrings truncates every string in v, except for the names of members.
func truncateStrings(v any, limit int) any {
	switch v := v.(type) {
	case string:
		return truncate(v, limit)
	case map[string]any:
		for name := range v {
			v[name] = truncateStrings(v[name], limit)
		}
	case []any:
		for i := range v {
			v[i] = truncateStrings(v[i], limit)
		}
	}
	return v
}

// truncate returns a prefix of s with at most limit bytes, which ends at a character boundary.
func truncate(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// formatTime returns a time in the form of documents: RFC 3339 in UTC, in whole seconds.
func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }
