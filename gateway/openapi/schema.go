package main

import (
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	openapiv1 "slipway.dev/proto/gen/slipway/openapi/v1"
)

// note remembers a message, and those in it, as part of what is asked.
func (d *document) note(m *protogen.Message) {
	if d.asked[m.GoIdent.GoName] {
		return
	}
	d.asked[m.GoIdent.GoName] = true
	for _, f := range m.Fields {
		if f.Message != nil && !isInternal(f) {
			d.note(f.Message)
		}
	}
}

// ref refers to the schema of a message. One that is both sent and returned has two:
// 64-bit integers are returned as strings.
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

// object fills in the schema of a message; properties that are written by hand
// win.
func (d *document) object(s *openapi3.Schema, name string, m *protogen.Message, asked bool) {
	s.Description = description(m)
	if by := d.doc.Components.Schemas[name]; by != nil {
		s.Properties = by.Value.Properties
	}
	d.doc.Components.Schemas[name] = openapi3.NewSchemaRef("", s)
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

// described is the schema of a member, with what its comment says.
func (d *document) described(f *protogen.Field, asked bool) *openapi3.SchemaRef {
	s := d.schema(f, asked)
	if s.Ref != "" { // what stands beside a reference is not read
		s = openapi3.NewSchemaRef("", &openapi3.Schema{AllOf: openapi3.SchemaRefs{s}})
	}
	s.Value.Description = prose(f.Comments.Leading)
	s.Value.Nullable = d.whole && !asked && f.Message != nil && !f.Desc.IsList() && foreign(f.Message)
	return s
}

// isInternal recognises the fields that clients neither send nor get.
func isInternal(f *protogen.Field) bool {
	is, _ := proto.GetExtension(f.Desc.Options(), openapiv1.E_Internal).(bool)
	return is
}

// required recognises the fields that a caller must give.
func required(f *protogen.Field) bool {
	behaviour, ok := proto.GetExtension(f.Desc.Options(), annotations.E_FieldBehavior).([]annotations.FieldBehavior)
	return ok && len(behaviour) == 1 && behaviour[0] == annotations.FieldBehavior_REQUIRED
}

// foreign says whether the JSON of a message is not the object of its fields.
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
		return s.NewRef()
	}
	return d.single(f, asked)
}

// single is the JSON of one value. Truth: the gateway's marshalers.
func (d *document) single(f *protogen.Field, asked bool) *openapi3.SchemaRef {
	switch f.Desc.Kind() {
	case protoreflect.BoolKind:
		return openapi3.NewBoolSchema().NewRef()
	case protoreflect.Int32Kind:
		return openapi3.NewInt32Schema().NewRef()
	case protoreflect.Int64Kind:
		if !asked {
			return openapi3.NewStringSchema().WithPattern("^-?[0-9]+$").NewRef()
		}
		return openapi3.NewInt64Schema().NewRef()
	case protoreflect.DoubleKind:
		return number(f)
	case protoreflect.MessageKind:
		if foreign(f.Message) {
			return known(f)
		}
		return d.ref(f.Message, asked)
	default:
		s := openapi3.NewStringSchema()
		if most, _ := proto.GetExtension(f.Desc.Options(), openapiv1.E_MaxLength).(int32); most > 0 && asked {
			s = s.WithMaxLength(int64(most))
		}
		return s.NewRef()
	}
}

// known is the JSON of a foreign message.
func known(f *protogen.Field) *openapi3.SchemaRef {
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

// isInteger recognises the doubles that are whole numbers: a 64-bit integer would be
// a string in JSON.
func isInteger(f *protogen.Field) bool {
	is, _ := proto.GetExtension(f.Desc.Options(), openapiv1.E_Integer).(bool)
	return is
}
