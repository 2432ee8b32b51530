package request

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	openapiv1 "slipway.dev/proto/gen/slipway/openapi/v1"

	"slipway.dev/services/internal/fault"
)

// TestEveryFieldHasASize sets each string and list of a request to an excessive size, and
// checks that all are rejected before anything is stored or requested.
func TestEveryFieldHasASize(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 15_000_000)
	fields := 0
	each((&containerv1.ContainerRequest{}).ProtoReflect().Descriptor(), nil, func(path []protoreflect.FieldDescriptor) {
		last := path[len(path)-1]
		if last.Kind() != protoreflect.StringKind {
			return
		}
		fields++
		for _, text := range []string{long, "a"} {
			if text == "a" && !last.IsList() {
				continue
			}
			r := &containerv1.ContainerRequest{ContainerImage: "alpine"}
			m := r.ProtoReflect()
			for _, fd := range path[:len(path)-1] {
				if fd.IsList() {
					m = m.Mutable(fd).List().AppendMutable().Message()
					continue
				}
				m = m.Mutable(fd).Message()
			}
			if last.IsList() {
				for range 1 + 20_000*boolInt(text == "a") {
					m.Mutable(last).List().Append(protoreflect.ValueOfString(text))
				}
			} else {
				m.Set(last, protoreflect.ValueOfString(text))
			}
			_, err := Parse(r, ownsNothing) // Parse runs before authentication
			if !errors.Is(err, fault.Invalid) {
				t.Errorf("%s: got %v", last.FullName(), err)
			}
			if err != nil && len(err.Error()) > 1000 {
				t.Errorf("%s: the refusal is %d bytes long", last.FullName(), len(err.Error()))
			}
		}
	})
	if fields < 25 {
		t.Errorf("only %d fields were found", fields)
	}
}

func boolInt(is bool) int {
	if is {
		return 1
	}
	return 0
}

// each visits every field of our messages recursively.
func each(d protoreflect.MessageDescriptor, path []protoreflect.FieldDescriptor, visit func([]protoreflect.FieldDescriptor)) {
	for i := range d.Fields().Len() {
		fd := d.Fields().Get(i)
		if internal, _ := proto.GetExtension(fd.Options(), openapiv1.E_Internal).(bool); internal {
			continue // removed before storage (TestOriginCannotBeClaimed)
		}
		at := append(append([]protoreflect.FieldDescriptor{}, path...), fd)
		visit(at)
		if m := fd.Message(); m != nil && strings.HasPrefix(string(m.FullName()), "slipway.") {
			each(m, at, visit)
		}
	}
}
