package runs

import (
	"maps"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	openapiv1 "slipway.dev/proto/gen/slipway/openapi/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
)

// TestDeclaredOrders checks that the OpenAPI document declares the orders of tasks that are
// enforced.
func TestDeclaredOrders(t *testing.T) {
	t.Parallel()
	declared, _ := proto.GetExtension((&platformv1.ListTasksRequest{}).ProtoReflect().Descriptor().Fields().ByName("sort_by").Options(), openapiv1.E_Values).([]string)
	if enforced := slices.Sorted(maps.Keys(taskOrders()))[1:]; !slices.Equal(slices.Sorted(slices.Values(declared)), enforced) {
		t.Errorf("declared are %q, enforced %q", declared, enforced)
	}
}
