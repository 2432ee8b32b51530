package api_test

import (
	"os"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/platform/api"
)

// TestStored reaches the limit of every kind of objects, and looks for the kind in the contract.
func TestStored(t *testing.T) {
	t.Parallel()
	contract, err := os.ReadFile("../../../gateway/contract/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	_, row, _ := strings.Cut(string(contract), "\n| `"+string(fault.ObjectLimit)+"` |")
	row, _, _ = strings.Cut(row, "\n")
	for _, kind := range api.StoredKinds() {
		e, ok := fault.As(kind.Check(1 << 30))
		if !ok {
			t.Errorf("%s have no limit", kind)
			continue
		}
		detail, _ := e.Detail.(*structpb.Struct)
		limit := int(detail.GetFields()["limit"].GetNumberValue())
		if e.Kind != fault.Invalid || e.Code != fault.ObjectLimit || detail.GetFields()["what"].GetStringValue() != string(kind) || limit < 1 {
			t.Errorf("%s: %+v", kind, e)
		}
		if err := kind.Check(limit - 1); err != nil {
			t.Errorf("%s below the limit %d: %v", kind, limit, err)
		}
		if kind.Check(limit) == nil {
			t.Errorf("the limit %d of %s was exceeded", limit, kind)
		}
		if !strings.Contains(row, "`"+string(kind)+"`") {
			t.Errorf("gateway/contract/errors.md does not list %s", kind)
		}
	}
}
