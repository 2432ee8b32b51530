package batch

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// fillIn sets the fields of a message that are unset to those of from. The fields of
// condaOpts, which requests of Snakemake set in part, are filled in one by one.
func fillIn(to, from proto.Message) {
	target := to.ProtoReflect()
	from.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case !target.Has(f):
			target.Set(f, v)
		case f.Name() == "conda_opts":
			fillIn(target.Get(f).Message().Interface(), v.Message().Interface())
		}
		return true
	})
}
