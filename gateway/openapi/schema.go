package main

import (
	"maps"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	openapiv1 "slipway.dev/proto/gen/slipway/openapi/v1"
)

// markRequest records a message, and the messages in its fields, as part of a request.
func (d *document) markRequest(m *protogen.Message) {
	if d.asked[m.GoIdent.GoName] {
		return
	}
	d.asked[m.GoIdent.GoName] = true
	for _, f := range m.Fields {
		if f.Message != nil && !isInternal(f) {
			d.markRequest(f.Message)
		}
	}
}

// ref returns a reference to the schema of a message. A message that is both sent and
// returned has two schemas, because 64-bit integers are returned as strings.
func (d *document) ref(m *protogen.Message, asked bool) *openapi3.SchemaRef {
	name := m.GoIdent.GoName
	if stem, ok := strings.CutSuffix(name, "Response"); ok || !asked && d.asked[name] {
		name = stem + "Result"
	}
	s, done := d.made[name]
	if !done {
		s = openapi3.NewObjectSchema()
		d.made[name] = s
		d.object(s, name, m, asked)
	}
	return openapi3.NewSchemaRef("#/components/schemas/"+name, s)
}

// object sets the schema of a message. Manually written properties take precedence.
func (d *document) object(s *openapi3.Schema, name string, m *protogen.Message, asked bool) {
	s.Description = description(m)
	if by := d.doc.Components.Schemas[name]; by != nil {
		s.Properties = by.Value.Properties
	}
	d.doc.Components.Schemas[name] = openapi3.NewSchemaRef("", s)
	if asked {
		for _, member := range listOf(m.Desc.Options(), openapiv1.E_AnyOf) {
			s.AnyOf = append(s.AnyOf, openapi3.NewSchemaRef("", &openapi3.Schema{Required: []string{member}}))
		}
	}
	for _, f := range m.Fields {
		if isInternal(f) {
			continue
		}
		member := f.Desc.JSONName()
		if _, by := s.Properties[member]; !by {
			s.WithPropertyRef(member, d.described(f, asked))
		}
		if required(f) || d.whole && !asked && !f.Desc.HasOptionalKeyword() {
			s.Required = append(s.Required, member)
		}
	}
}

// described returns the schema of a member with its comment.
func (d *document) described(f *protogen.Field, asked bool) *openapi3.SchemaRef {
	s := d.schema(f, asked)
	if paths := listOf(f.Desc.Options(), openapiv1.E_Requires); len(paths) > 0 {
		s = d.requiring(s, paths...)
	}
	if s.Ref != "" { // a reference cannot have a description
		s = openapi3.NewSchemaRef("", &openapi3.Schema{AllOf: openapi3.SchemaRefs{s}})
	}
	s.Value.Nullable = d.whole && f.Message != nil && !f.Desc.IsList() && foreign(f.Message)
	if asked { // null is an absent value
		s.Value.Nullable = !required(f) && len(s.Value.AllOf) == 0
	}
	s.Value.Description = prose(f.Comments.Leading)
	return s
}

// isInternal reports whether clients neither send nor receive a field.
func isInternal(f *protogen.Field) bool {
	is, _ := proto.GetExtension(f.Desc.Options(), openapiv1.E_Internal).(bool)
	return is
}

// required reports whether a caller must set a field.
func required(f *protogen.Field) bool {
	behaviour, ok := proto.GetExtension(f.Desc.Options(), annotations.E_FieldBehavior).([]annotations.FieldBehavior)
	return ok && len(behaviour) == 1 && behaviour[0] == annotations.FieldBehavior_REQUIRED
}

// foreign reports whether the JSON of a message is not an object with its fields.
func foreign(m *protogen.Message) bool {
	return strings.HasPrefix(string(m.Desc.FullName()), "google.protobuf.") || m.Desc.FullName() == "slipway.platform.v1.Document"
}

func (d *document) schema(f *protogen.Field, asked bool) *openapi3.SchemaRef {
	switch {
	case f.Desc.IsMap():
		s := openapi3.NewObjectSchema()
		s.AdditionalProperties.Schema = d.single(f.Message.Fields[1], asked)
		if isInteger(f) {
			s.AdditionalProperties.Schema = openapi3.NewInt64Schema().NewRef()
		}
		return s.NewRef()
	case f.Desc.IsList():
		s := openapi3.NewArraySchema()
		s.Items = d.single(f, asked)
		if n, _ := proto.GetExtension(f.Desc.Options(), openapiv1.E_MaxItems).(int32); n > 0 && asked {
			s.WithMaxItems(int64(n))
		}
		return s.NewRef()
	}
	return d.single(f, asked)
}

// single returns the schema of one value, according to the gateway's marshalers.
func (d *document) single(f *protogen.Field, asked bool) *openapi3.SchemaRef {
	switch f.Desc.Kind() {
	case protoreflect.BoolKind:
		return openapi3.NewBoolSchema().NewRef()
	case protoreflect.Int32Kind:
		return bounded(openapi3.NewInt32Schema(), f, asked).NewRef()
	case protoreflect.Int64Kind:
		if !asked {
			return openapi3.NewStringSchema().WithPattern("^-?[0-9]+$").NewRef()
		}
		return bounded(openapi3.NewInt64Schema(), f, asked).NewRef()
	case protoreflect.DoubleKind:
		return number(f)
	case protoreflect.MessageKind:
		if foreign(f.Message) {
			return foreignSchema(f)
		}
		return d.ref(f.Message, asked)
	default:
		return text(f, asked).NewRef()
	}
}

// text returns the schema of a string, with the constraints that its field declares for
// requests.
func text(f *protogen.Field, asked bool) *openapi3.Schema {
	s := openapi3.NewStringSchema()
	if !asked {
		return s
	}
	if most, _ := proto.GetExtension(f.Desc.Options(), openapiv1.E_MaxLength).(int32); most > 0 {
		s = s.WithMaxLength(int64(most))
	}
	if least, _ := proto.GetExtension(f.Desc.Options(), openapiv1.E_MinLength).(int32); least > 0 {
		s = s.WithMinLength(int64(least))
	}
	if form, _ := proto.GetExtension(f.Desc.Options(), openapiv1.E_Pattern).(string); form != "" {
		s = s.WithPattern(form)
	}
	for _, value := range listOf(f.Desc.Options(), openapiv1.E_Values) {
		s.Enum = append(s.Enum, value)
	}
	return s
}

// requiring returns a reference to a copy of a schema in which the members at paths are
// required.
func (d *document) requiring(of *openapi3.SchemaRef, paths ...string) *openapi3.SchemaRef {
	name := "New" + of.Ref[strings.LastIndexByte(of.Ref, '/')+1:]
	s := *of.Value
	s.Properties = maps.Clone(s.Properties)
	for _, path := range paths {
		member, below, further := strings.Cut(path, ".")
		if !slices.Contains(s.Required, member) {
			s.Required = append(slices.Clip(s.Required), member)
		}
		p := *s.Properties[member].Value
		p.Nullable = false
		if further {
			p.AllOf = openapi3.SchemaRefs{d.requiring(p.AllOf[0], below)}
		}
		s.Properties[member] = openapi3.NewSchemaRef("", &p)
	}
	d.doc.Components.Schemas[name] = openapi3.NewSchemaRef("", &s)
	return openapi3.NewSchemaRef("#/components/schemas/"+name, &s)
}

// bounded adds the bounds of a number in a request.
func bounded(s *openapi3.Schema, f *protogen.Field, asked bool) *openapi3.Schema {
	if !asked {
		return s
	}
	if slices.Contains(notNegative(), f.Desc.JSONName()) {
		s.WithMin(0)
	}
	if least, _ := proto.GetExtension(f.Desc.Options(), openapiv1.E_Minimum).(int32); least > 0 {
		s.WithMin(float64(least))
	}
	if most, _ := proto.GetExtension(f.Desc.Options(), openapiv1.E_Maximum).(int32); most > 0 {
		s.WithMax(float64(most))
	}
	return s
}

// notNegative returns the names of fields that must not be negative in any call.
func notNegative() []string {
	return []string{"max", "offset", "page", "pageSize", "workspaceId", "platformWorkspaceId", "towerWorkspaceId", "version", "level", "gzipSize", "before"}
}

// listOf returns the values of an option that is a list of strings.
func listOf(options protoreflect.ProtoMessage, option protoreflect.ExtensionType) []string {
	list, _ := proto.GetExtension(options, option).([]string)
	return list
}

// foreignSchema returns the schema of a foreign message.
func foreignSchema(f *protogen.Field) *openapi3.SchemaRef {
	switch f.Message.Desc.Name() {
	case "Timestamp":
		return openapi3.NewDateTimeSchema().NewRef()
	case "DoubleValue":
		return number(f)
	case "StringValue":
		return openapi3.NewStringSchema().NewRef()
	default: // Struct, Document
		return openapi3.NewObjectSchema().WithAnyAdditionalProperties().NewRef()
	}
}

func number(f *protogen.Field) *openapi3.SchemaRef {
	if isInteger(f) {
		return openapi3.NewInt64Schema().NewRef()
	}
	return openapi3.NewFloat64Schema().NewRef()
}

// isInteger reports whether a double is always a whole number. Such fields are doubles
// because protobuf encodes 64-bit integers as JSON strings.
func isInteger(f *protogen.Field) bool {
	is, _ := proto.GetExtension(f.Desc.Options(), openapiv1.E_Integer).(bool)
	return is
}
