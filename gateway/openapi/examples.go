package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"slipway.dev/gateway/contracttest"
)

// illustrate adds the documented examples of an operation. It returns an error if an example
// is missing.
func (d *document) illustrate(verb, path string, op *openapi3.Operation) error {
	var calls []string
	for _, e := range d.examples {
		values, ok := d.matchesExample(e, verb, path)
		if !ok {
			continue
		}
		if op.Responses.Value(e.Status) == nil {
			return fmt.Errorf("the example %s is answered %s, which the document does not have", e.Name, e.Status)
		}
		if err := d.show(op, e, values); err != nil {
			return fmt.Errorf("the example %s: %w", e.Name, err)
		}
		if succeeds(e) && strings.Contains(e.Path, "?") {
			calls = append(calls, fmt.Sprintf("- `%s %s`: %s", e.Method, e.Path, e.Comment))
		}
	}
	if len(calls) > 0 {
		op.Description = strings.TrimSpace(op.Description + "\n\nFor example:\n\n" + strings.Join(calls, "\n"))
	}
	return lacks(op)
}

func succeeds(e contracttest.Example) bool { return strings.HasPrefix(e.Status, "2") }

// show adds an example of the response and, if it is a success, of the request.
func (d *document) show(op *openapi3.Operation, e contracttest.Example, values map[string]string) error {
	if succeeds(e) {
		setParameters(op, values, e.Path)
		if err := addRequestExample(op, e); err != nil {
			return err
		}
	}
	return d.replies(op, e)
}

// matchesExample reports whether an example calls an operation, and returns the values of the
// variables in its path. If two paths match, the one with fewer variables is used.
func (d *document) matchesExample(e contracttest.Example, verb, path string) (map[string]string, bool) {
	called, _, _ := strings.Cut(e.Path, "?")
	values := match(path, called)
	if e.Method != verb || values == nil {
		return nil, false
	}
	for other, item := range d.doc.Paths.Map() {
		if v := match(other, called); v != nil && len(v) < len(values) && item.GetOperation(verb) != nil {
			return nil, false
		}
	}
	return values, true
}

// match returns the values of a path's variables; nil if the path does not match.
func match(path, called string) map[string]string {
	want, have := strings.Split(path, "/"), strings.Split(called, "/")
	if len(want) != len(have) {
		return nil
	}
	values := map[string]string{}
	for i, w := range want {
		name, isVariable := strings.CutPrefix(w, "{")
		if !isVariable && w != have[i] {
			return nil
		}
		if isVariable {
			values[strings.TrimSuffix(name, "}")] = have[i]
		}
	}
	return values
}

// setParameters adds examples of the parameters in path and query.
func setParameters(op *openapi3.Operation, values map[string]string, called string) {
	_, raw, _ := strings.Cut(called, "?")
	query, _ := url.ParseQuery(raw) // as far as the query can be parsed
	for _, p := range op.Parameters {
		text, ok := values[p.Value.Name]
		if p.Value.Required && query.Has(p.Value.Name) {
			text, ok = query.Get(p.Value.Name), true
		}
		if !ok || p.Value.Example != nil {
			continue
		}
		p.Value.Example = text
		if p.Value.Schema.Value.Type.Is("integer") {
			p.Value.Example = json.Number(text)
		}
	}
}

// addRequestExample adds the request of an example. It omits null and unknown members, which the
// server ignores, and converts integers that are sent as strings to numbers.
func addRequestExample(op *openapi3.Operation, e contracttest.Example) error {
	if op.RequestBody == nil || e.Body == "" {
		return nil
	}
	var value any
	if err := json.Unmarshal([]byte(e.Body), &value); err != nil {
		return err
	}
	media := op.RequestBody.Value.Content.Get("application/json")
	add(media, e, sieve(value, media.Schema.Value))
	return nil
}

func sieve(value any, schema *openapi3.Schema) any {
	for len(schema.AllOf) > 0 { // further schemas only list required members
		schema = schema.AllOf[0].Value
	}
	switch v := value.(type) {
	case string:
		if schema.Type.Is("integer") {
			return json.Number(v)
		}
	case []any:
		for i := range v {
			v[i] = sieve(v[i], schema.Items.Value)
		}
	case map[string]any:
		for name, member := range v {
			known := schema.Properties[name]
			switch {
			case known != nil && member != nil:
				v[name] = sieve(member, known.Value)
			case member == nil || schema.AdditionalProperties.Has == nil:
				delete(v, name)
			}
		}
	}
	return value
}

// replies adds the response of an example, with the canned values in place of wildcards. It
// adds nothing if the value of a wildcard is unknown.
func (d *document) replies(op *openapi3.Operation, e contracttest.Example) error {
	if e.Want == "" {
		return nil
	}
	response := *op.Responses.Value(e.Status).Value
	kind, _, _ := strings.Cut(e.Header["Content-Type"], ";")
	var value any = e.Want + "\n"
	switch {
	case kind == "text/event-stream":
		value = eventsOf(e.Want)[0] // the schema of a stream is that of one event
	case strings.HasSuffix(kind, "+json"): // a document that the service returns as it is
		if err := json.Unmarshal([]byte(e.Want), &value); err != nil {
			return err
		}
	case !strings.HasPrefix(kind, "text/"):
		kind = "application/json"
		answer, known, err := responseExample(e)
		if err != nil || !known {
			return err
		}
		value = answer
	}
	media := response.Content.Get(kind)
	if media == nil {
		return fmt.Errorf("its answer is %s, which the document does not have", kind)
	}
	if op.Responses.Value(e.Status).Ref != "" { // its own response instead of the shared one
		mine := openapi3.NewMediaType()
		mine.Schema = media.Schema
		media, response.Content = mine, openapi3.Content{kind: mine}
		op.Responses.Set(e.Status, &openapi3.ResponseRef{Value: &response})
	}
	add(media, e, value)
	return nil
}

// eventsOf returns the events of a stream in the form that the document describes, without
// those whose data has several lines: the YAML writer cannot write a string that begins
// with a space.
func eventsOf(stream string) []any {
	var out []any
	for block := range strings.SplitSeq(stream, "\n\n") {
		event, lines := map[string]any{}, 0
		for line := range strings.Lines(block) {
			name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
			event[name] = value
			lines++
		}
		if lines == len(event) && event["event"] != nil { // "retry" is not an event
			out = append(out, event)
		}
	}
	return out
}

// responseExample returns an example's response with the canned values in place of wildcards;
// known is false if a wildcard remains.
func responseExample(e contracttest.Example) (value any, known bool, err error) {
	if err := json.Unmarshal([]byte(e.Want), &value); err != nil {
		return nil, false, err
	}
	var canned any
	if e.Answered != "" {
		if err := json.Unmarshal([]byte(e.Answered), &canned); err != nil {
			return nil, false, err
		}
	}
	if m, ok := canned.(map[string]any); ok && len(m) == 1 && !sameMembers(m, value) {
		for _, canned = range m { // response_body
		}
	}
	value, known = fillWildcards(value, canned)
	return value, known, nil
}

func sameMembers(m map[string]any, value any) bool {
	v, ok := value.(map[string]any)
	for name := range m {
		_, has := v[name]
		ok = ok && has
	}
	return ok
}

func add(media *openapi3.MediaType, e contracttest.Example, value any) {
	if media.Examples == nil {
		media.Examples = openapi3.Examples{}
	}
	media.Examples[e.Name] = &openapi3.ExampleRef{Value: &openapi3.Example{Summary: strings.TrimSuffix(e.Comment, "."), Value: value}}
}

// fillWildcards replaces the wildcards in want by the canned values, and reports whether all are
// known.
func fillWildcards(want, canned any) (any, bool) {
	known := true
	switch w := want.(type) {
	case string:
		if w != "*" && w != "#" {
			return w, true
		}
		return canned, canned != nil
	case map[string]any:
		c, _ := canned.(map[string]any)
		for name := range w {
			var ok bool
			w[name], ok = fillWildcards(w[name], c[name])
			known = known && ok
		}
	case []any:
		c, _ := canned.([]any)
		for i := range w {
			var ok bool
			w[i], ok = fillWildcards(w[i], append(slices.Clone(c), make([]any, len(w))...)[i])
			known = known && ok
		}
	}
	return want, known
}

// bare returns a content type without an example; false if each type has one.
func bare(c openapi3.Content) (kind string, some bool) {
	for kind, m := range c {
		if len(m.Examples) == 0 && m.Example == nil {
			return kind, true
		}
	}
	return "", false
}

// lacks returns an error if a request, response or required parameter of an operation has no
// example.
func lacks(op *openapi3.Operation) error {
	if op.RequestBody != nil {
		if kind, some := bare(op.RequestBody.Value.Content); some {
			return fmt.Errorf("there is no example of a request in %s", kind)
		}
	}
	for code, r := range op.Responses.Map() {
		if kind, some := bare(r.Value.Content); some {
			return fmt.Errorf("there is no example of the answer %s in %s", code, kind)
		}
	}
	if op.Responses.Value("200") == nil && op.Responses.Value("204") == nil && op.Responses.Value("303") == nil {
		return errors.New("no success is described")
	}
	for _, p := range op.Parameters {
		if p.Value.Required && p.Value.Example == nil {
			return fmt.Errorf("there is no example of %s", p.Value.Name)
		}
	}
	return nil
}
