package contracttest

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

//go:embed published.tsv
var publishedFacts string

// Published holds the response types of the platform's published API. Generated clients
// reject other types and values. Create it with ReadPublished; it is safe for concurrent
// use.
type Published struct {
	operations []operation
}

// operation is a published call.
type operation struct {
	method string
	path   []string // segments; "{}" matches any
	// members are keyed by their place in the body: "credentials[].name".
	members map[string]fact
}

// fact is the type of a member.
type fact struct {
	kind               string // string, date-time, integer, number, boolean, object or array
	values             []string
	required, nullable bool
}

// ReadPublished parses published.tsv.
func ReadPublished() (*Published, error) {
	p := &Published{}
	for n, line := range strings.Split(strings.TrimSpace(publishedFacts), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		cells := append(strings.Split(line, "\t"), "", "")
		if len(cells) < 6 {
			return nil, fmt.Errorf("published.tsv, line %d: there are not enough columns", n+1)
		}
		f := fact{kind: cells[3], required: cells[5] == "required", nullable: cells[5] == "nullable"}
		if cells[4] != "" {
			f.values = strings.Split(cells[4], ",")
		}
		path := strings.Split(cells[1], "/")
		last := len(p.operations) - 1
		if last < 0 || p.operations[last].method != cells[0] || !slices.Equal(p.operations[last].path, path) {
			p.operations = append(p.operations, operation{cells[0], path, map[string]fact{}})
			last++
		}
		p.operations[last].members[cells[2]] = f
	}
	return p, nil
}

// Check returns how the body of a successful response differs from the published types; nil
// for a call that is not published. The path must not have a prefix such as /api; its query
// is ignored. null is allowed for every member, because typed clients treat it as absent.
func (p *Published) Check(method, path string, body []byte) error {
	path, _, _ = strings.Cut(path, "?")
	segments := strings.Split(path, "/")
	// Fixed segments take precedence over variables: /orgs/validate is not an organisation.
	best, fixed := -1, -1
	for i, o := range p.operations {
		if n := o.match(method, segments); n > fixed {
			best, fixed = i, n
		}
	}
	if best < 0 || len(body) == 0 {
		return nil
	}
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		return fmt.Errorf("%s %s: the body is not JSON: %w", method, path, err)
	}
	if err := p.operations[best].check("", v); err != nil {
		return fmt.Errorf("%s %s: the published type differs: %w", method, path, err)
	}
	return nil
}

// match returns how many segments are equal; -1 if the method or path does not match.
func (o operation) match(method string, segments []string) int {
	if o.method != method || len(o.path) != len(segments) {
		return -1
	}
	fixed := 0
	for i, s := range o.path {
		switch s {
		case segments[i]:
			fixed++
		case "{}":
		default:
			return -1
		}
	}
	return fixed
}

// check compares a value and its members.
func (o operation) check(at string, v any) error {
	if err := o.members[at].check(at, v); err != nil {
		return err
	}
	var problems []error
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			problems = append(problems, o.check(join(at, name), member))
		}
		for place, f := range o.members {
			within, name, ok := cutLast(place)
			if _, has := v[name]; ok && within == at && f.required && !has {
				problems = append(problems, fmt.Errorf("%s is missing", place))
			}
		}
	case []any:
		for _, item := range v {
			problems = append(problems, o.check(at+"[]", item))
		}
	}
	return errors.Join(problems...)
}

func join(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}

// cutLast splits a place at its last member.
func cutLast(place string) (within, name string, ok bool) {
	i := strings.LastIndexByte(place, '.')
	if i < 0 {
		return "", place, false
	}
	return place[:i], place[i+1:], true
}

// check compares a value with the type of its member; the zero fact allows any.
func (f fact) check(at string, v any) error {
	if v == nil || f.kind == "" {
		return nil
	}
	ok := false
	switch v := v.(type) {
	case string:
		ok = f.kind == "string"
		if f.kind == "date-time" {
			_, err := time.Parse(time.RFC3339, v)
			ok = err == nil
		}
		if len(f.values) > 0 && !slices.Contains(f.values, v) {
			return fmt.Errorf("%s is %q, not one of %s", at, v, strings.Join(f.values, ", "))
		}
	case float64:
		ok = f.kind == "number" || f.kind == "integer" && v == math.Trunc(v)
	case bool:
		ok = f.kind == "boolean"
	case map[string]any:
		ok = f.kind == "object"
	case []any:
		ok = f.kind == "array"
	}
	if !ok {
		return fmt.Errorf("%s is %v, not of the type %s", at, v, f.kind)
	}
	return nil
}
