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

// object is a JSON object as a run sent it. A member of another type than the one
// asked for counts as absent.
type object map[string]any

// Texts that are longer are cut: a run may send anything.
const (
	longText  = 1 << 20 // in a workflow
	taskText  = 64 << 10
	indexText = 500 // in a column
	// searchText is what Postgres takes in an index beside another column.
	searchText = 1900
)

// parseObject reads a body. Invalid UTF-8 is repaired; only what is no object is
// fault.Invalid.
func parseObject(raw []byte) (object, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var o object
	err := dec.Decode(&o)
	if err == nil && o == nil {
		err = errors.New("null")
	}
	if _, tail := dec.Token(); err == nil && !errors.Is(tail, io.EOF) {
		err = errors.New("something follows the object")
	}
	if err != nil {
		return nil, fault.Invalid.New("The request body must be a JSON object", err)
	}
	return o, nil
}

// readObject reads what was stored.
func readObject(s string) (object, error) {
	if s == "" {
		return object{}, nil
	}
	return parseObject([]byte(s))
}

// String is the object as it is stored.
func (o object) String() string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(map[string]any(o)); err != nil {
		return "{}" // what was read can be written
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// fit leaves out the largest members of an object until its text has about so many
// bytes at most: what sends it must not fail for it.
func (o object) fit(limit int) {
	total, sizes := len("{}"), map[string]int{}
	for name, v := range o {
		sizes[name] = len(object{name: v}.String()) - 1 // a comma for two braces
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

// shown is the object as responses show it.
func (o object) shown() *platformv1.Document {
	return &platformv1.Document{Json: []byte(o.String())}
}

// showStored is an object as it is stored, and members that it does not have. It
// is not read for that: a list shows many.
func showStored(stored string, more object) *platformv1.Document {
	if len(stored) <= len("{}") {
		return more.shown()
	}
	return &platformv1.Document{Json: []byte(strings.TrimSuffix(stored, "}") + "," + strings.TrimPrefix(more.String(), "{"))}
}

func (o object) text(name string) string {
	s, _ := o[name].(string)
	return s
}

// column is a text that goes into a column: short, and without what Postgres does
// not take.
func (o object) column(name string) string {
	return cut(strings.ReplaceAll(o.text(name), "\x00", ""), indexText)
}

func (o object) object(name string) object {
	m, _ := o[name].(map[string]any)
	return m
}

func (o object) list(name string) []any {
	l, _ := o[name].([]any)
	return l
}

// number is a whole number, also one written as 1.0 or "1".
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

// fraction is a number.
func (o object) fraction(name string) float64 {
	n, _ := o[name].(json.Number)
	f, err := n.Float64()
	if err != nil {
		return 0
	}
	return f
}

// time is an instant: RFC 3339, or milliseconds since the epoch.
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

// merge takes over the members of another; only those that are not here yet when
// old is true.
func (o object) merge(from object, old bool) {
	for name, v := range from {
		if _, has := o[name]; v == nil || old && has {
			continue
		}
		o[name] = v
	}
}

// shorten cuts every text within v.
func shorten(v any, limit int) any {
	switch v := v.(type) {
	case string:
		return cut(v, limit)
	case map[string]any:
		for name := range v {
			v[name] = shorten(v[name], limit)
		}
	case []any:
		for i := range v {
			v[i] = shorten(v[i], limit)
		}
	}
	return v
}

// cut shortens a text to some bytes, at a character.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// stamp is an instant as documents show it.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }
