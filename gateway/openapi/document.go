package main

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/proto"

	openapiv1 "slipway.dev/proto/gen/slipway/openapi/v1"

	"slipway.dev/gateway/contracttest"
)

// document is an OpenAPI document that is being generated.
type document struct {
	api
	doc      *openapi3.T
	examples []contracttest.Example
	asked    map[string]bool // messages that are part of a request
	made     map[string]*openapi3.Schema
}

// newDocument starts a document with its manually written part.
func newDocument(f api, base []byte) (*document, error) {
	doc, err := openapi3.NewLoader().LoadFromData(base)
	if err != nil {
		return nil, err
	}
	d := &document{api: f, doc: doc, asked: map[string]bool{}, made: map[string]*openapi3.Schema{}}
	for _, dir := range f.examples {
		list, err := contracttest.Load(dir, map[string]string{
			"registry": "registry.example.org", "request": "71c480df93d6ae2f1efad1447c66c9525e316218cf51fc8d9ed832f2daf18b73", "token": "abcdefghijklmnopqrstuvwxyz", "spare": "bt3n6v5cmyq2w7k4x2z3j6h5d4",
			"layer": "sha256:" + strings.Repeat("0f", 32),
			"build": "3f2a00000000beef_1", "pending": "3f2a00000000beef_2", "failed": "3f2a00000000beef_3",
		})
		if err != nil {
			return nil, err
		}
		d.examples = append(d.examples, list...)
	}
	return d, nil
}

// call is a method with a REST route.
type call struct {
	*protogen.Method
	rule       *annotations.HttpRule
	verb, path string
}

// fill adds the calls of the API, and then the errors and examples of all operations.
func (d *document) fill(files []*protogen.File) error {
	calls := d.calls(files)
	for _, c := range calls {
		if body := c.body(); body != nil && body.Message != nil {
			d.markRequest(body.Message)
		}
	}
	for _, c := range calls {
		d.operation(c)
	}
	var problems []error
	for path, item := range d.doc.Paths.Map() {
		for verb, op := range item.Operations() {
			if err := d.complete(verb, path, op); err != nil {
				problems = append(problems, fmt.Errorf("%s %s: %w", verb, path, err))
			}
		}
	}
	return errors.Join(problems...)
}

func (d *document) calls(files []*protogen.File) []call {
	var out []call
	for _, f := range files {
		if !f.Generate || !slices.Contains(d.packages, string(f.Desc.Package())) {
			continue
		}
		for _, s := range f.Services {
			for _, m := range s.Methods {
				rule, ok := proto.GetExtension(m.Desc.Options(), annotations.E_Http).(*annotations.HttpRule)
				if !ok || rule.GetPattern() == nil {
					continue
				}
				c := call{Method: m, rule: rule}
				c.verb, c.path = httpRoute(rule)
				c.path = variable.ReplaceAllStringFunc(c.path, func(v string) string {
					return "{" + camel(strings.Trim(v, "{}")) + "}"
				})
				out = append(out, c)
			}
		}
	}
	return out
}

var variable = regexp.MustCompile(`\{[a-z_]+\}`)

func httpRoute(rule *annotations.HttpRule) (verb, path string) {
	switch p := rule.GetPattern().(type) {
	case *annotations.HttpRule_Get:
		return http.MethodGet, p.Get
	case *annotations.HttpRule_Put:
		return http.MethodPut, p.Put
	case *annotations.HttpRule_Post:
		return http.MethodPost, p.Post
	case *annotations.HttpRule_Delete:
		return http.MethodDelete, p.Delete
	case *annotations.HttpRule_Patch:
		return http.MethodPatch, p.Patch
	}
	return "", ""
}

// body returns the field that the request body is decoded into; nil for none.
func (c call) body() *protogen.Field { return fieldOf(c.Input, c.rule.GetBody()) }

func fieldOf(m *protogen.Message, name string) *protogen.Field {
	for _, f := range m.Fields {
		if string(f.Desc.Name()) == name {
			return f
		}
	}
	return nil
}

// operation adds a call. Manually written texts, responses and request bodies are kept.
func (d *document) operation(c call) {
	item := d.doc.Paths.Value(c.path)
	if item == nil {
		item = &openapi3.PathItem{}
		d.doc.Paths.Set(c.path, item)
	}
	op := item.GetOperation(c.verb)
	if op == nil {
		op = openapi3.NewOperation()
		item.SetOperation(c.verb, op)
	}
	if op.Responses == nil {
		op.Responses = openapi3.NewResponsesWithCapacity(8)
	}
	op.OperationID = c.GoName
	summary, description := splitComment(c.Comments.Leading, c.GoName)
	op.Summary, op.Description = cmp.Or(op.Summary, summary), cmp.Or(op.Description, description)
	op.Tags = []string{d.tag(c)}
	for _, f := range c.Input.Fields {
		if p := d.parameter(c, f); p != nil {
			op.AddParameter(p)
		}
	}
	d.addRequestBody(op, c)
	d.addResponses(op, c)
}

// tag returns the tag of an operation: the service, or the platform's domain.
func (d *document) tag(c call) string {
	if d.name == "container" {
		return strings.TrimSuffix(c.Parent.GoName, "Service")
	}
	return strings.SplitN(c.path, "/", 3)[1]
}

// parameter returns a field in the path or the query; nil for one in the body.
func (d *document) parameter(c call, f *protogen.Field) *openapi3.Parameter {
	name := f.Desc.JSONName()
	p := openapi3.NewQueryParameter(name)
	switch {
	case string(f.Desc.Name()) == c.rule.GetBody():
		return nil
	case strings.Contains(c.path, "{"+name+"}"):
		p = openapi3.NewPathParameter(name)
	}
	p.Description = capital(strings.TrimPrefix(prose(f.Comments.Leading), "Query parameter: "))
	p.Schema = d.single(f, true)
	p.Required = p.In == openapi3.ParameterInPath || required(f)
	return p
}

// addRequestBody describes the request body.
func (d *document) addRequestBody(op *openapi3.Operation, c call) {
	f := c.body()
	if f == nil || isInternal(f) {
		return
	}
	schema := d.single(f, true)
	if paths := listOf(f.Desc.Options(), openapiv1.E_Requires); len(paths) > 0 {
		schema = d.requiring(schema, paths...)
	}
	body := openapi3.NewRequestBody().WithJSONSchemaRef(schema)
	body.Required = needed(f)
	if op.RequestBody != nil { // a manual body without a schema only has examples
		byHand := op.RequestBody.Value.Content.Get("application/json")
		if byHand == nil || byHand.Schema != nil {
			return
		}
		body.Content.Get("application/json").Examples = byHand.Examples
	}
	op.RequestBody = &openapi3.RequestBodyRef{Value: body}
}

// needed reports whether a call requires its body. A body whose members are all optional may
// be omitted.
func needed(f *protogen.Field) bool {
	if f.Message == nil {
		return true
	}
	options := f.Message.Desc.Options()
	return len(listOf(f.Desc.Options(), openapiv1.E_Requires)) > 0 || len(listOf(options, openapiv1.E_AnyOf)) > 0 || slices.ContainsFunc(f.Message.Fields, required)
}

// addResponses describes success: 200, or 204 without content.
func (d *document) addResponses(op *openapi3.Operation, c call) {
	if len(c.Output.Fields) == 0 {
		if op.Responses.Value("200") == nil {
			op.Responses.Set("204", &openapi3.ResponseRef{Value: openapi3.NewResponse().WithDescription("It is done.")})
		}
		return
	}
	if returnsDocuments(op.Responses.Value("200")) {
		return
	}
	var schema *openapi3.SchemaRef
	if by := fieldOf(c.Output, c.rule.GetResponseBody()); by != nil {
		schema = d.schema(by, false)
	} else {
		schema = d.ref(c.Output, false)
	}
	response := openapi3.NewResponse().WithDescription(description(c.Output)).WithJSONSchemaRef(schema)
	if by := op.Responses.Value("200"); by != nil {
		response.Headers = by.Value.Headers
		for kind, other := range by.Value.Content { // besides JSON
			response.Content[kind] = other
		}
	}
	op.Responses.Set("200", &openapi3.ResponseRef{Value: response})
}

// returnsDocuments reports whether a response is a document in a format with JSON syntax, instead of the
// message in JSON.
func returnsDocuments(by *openapi3.ResponseRef) bool {
	if by == nil {
		return false
	}
	for kind := range by.Value.Content {
		if strings.HasSuffix(kind, "+json") {
			return true
		}
	}
	return false
}

// complete adds the errors that an operation can return, and the examples.
func (d *document) complete(verb, path string, op *openapi3.Operation) error {
	codes := d.errors(path, op)
	if verb != http.MethodGet {
		codes = append(codes, http.StatusInsufficientStorage)
	}
	for _, code := range codes {
		name := strconv.Itoa(code)
		if op.Responses.Value(name) != nil {
			continue
		}
		shared := strings.ReplaceAll(http.StatusText(code), " ", "")
		have := d.doc.Components.Responses[shared]
		if have == nil {
			return fmt.Errorf("there is no response %s", shared)
		}
		op.Responses.Set(name, &openapi3.ResponseRef{Ref: "#/components/responses/" + shared, Value: have.Value})
	}
	return d.illustrate(verb, path, op)
}

// errors returns the status codes of errors that all operations of this kind have; others are
// written manually.
func (d *document) errors(path string, op *openapi3.Operation) []int {
	codes := []int{http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusGatewayTimeout}
	if op.RequestBody != nil {
		codes = append(codes, http.StatusBadRequest, http.StatusRequestEntityTooLarge)
	}
	if d.whole { // the platform: versions, limits, and 403 for everything that does not exist
		codes = append(codes, http.StatusBadRequest)
		if op.Security == nil || len(*op.Security) > 0 {
			codes = append(codes, http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests)
		}
		return codes
	}
	if strings.Contains(path, "{") {
		codes = append(codes, http.StatusNotFound)
	}
	if slices.ContainsFunc(op.Parameters, func(p *openapi3.ParameterRef) bool { return p.Value.In != openapi3.ParameterInPath }) {
		codes = append(codes, http.StatusBadRequest)
	}
	return codes
}
