package inspect_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	inspectv1 "slipway.dev/proto/gen/slipway/inspect/v1"
	openapiv1 "slipway.dev/proto/gen/slipway/openapi/v1"

	"slipway.dev/services/inspect/listing"
)

// TestDeclaredQueries checks that queries of a layer's files are accepted up to the bounds that
// the OpenAPI document declares, and not beyond.
func TestDeclaredQueries(t *testing.T) {
	t.Parallel()
	of := func(name protoreflect.Name, option protoreflect.ExtensionType) any {
		return proto.GetExtension((&inspectv1.ListLayerFilesRequest{}).ProtoReflect().Descriptor().Fields().ByName(name).Options(), option)
	}
	most, _ := of("max", openapiv1.E_Maximum).(int32)
	length, _ := of("filter", openapiv1.E_MaxLength).(int32)
	for _, over := range []int{0, 1} {
		for name, options := range map[string]listing.Options{"max": {Max: int(most) + over}, "filter": {Filter: strings.Repeat("a", int(length)+over)}} {
			if _, err := listing.NewQuery(options); (err == nil) != (over == 0) {
				t.Errorf("%s, %d over the declared bound: %v", name, over, err)
			}
		}
	}
	sorts, _ := of("sort", openapiv1.E_Values).([]string)
	for _, sort := range append(sorts, "none") {
		if _, err := listing.NewQuery(listing.Options{Sort: sort}); (err == nil) != (sort != "none") || len(sorts) == 0 {
			t.Errorf("sort %s: %v", sort, err)
		}
	}
}
