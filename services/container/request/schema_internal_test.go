package request

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	openapiv1 "slipway.dev/proto/gen/slipway/openapi/v1"

	"slipway.dev/services/internal/limits"
)

// TestDocumentedSizes: the documents say how long a text may be, as it is checked.
func TestDocumentedSizes(t *testing.T) {
	t.Parallel()
	all := append(texts(&containerv1.ContainerRequest{}), sized{field: "containerConfig.layers.location", most: limits.LayerLocation})
	for _, s := range all {
		if s.field == "buildContext.location" {
			continue // a layer, too
		}
		m := (&containerv1.ContainerRequest{}).ProtoReflect().Descriptor()
		var field protoreflect.FieldDescriptor
		for name := range strings.SplitSeq(s.field, ".") {
			field = m.Fields().ByJSONName(name)
			m = field.Message()
		}
		documented := proto.GetExtension(field.Options(), openapiv1.E_MaxLength)
		if fmt.Sprint(documented) != fmt.Sprint(s.most) {
			t.Errorf("%s: the proto says %v characters, checked are %d", s.field, documented, s.most)
		}
	}
}
