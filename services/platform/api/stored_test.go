package api_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/platform/api"
)

// TestStored reaches the limit of every kind of objects, and compares the kinds with the contract and
// with the constants.
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
	}
	_, text, _ := strings.Cut(row, "and `what`:")
	var listed []api.Stored
	for _, m := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(text, -1) {
		listed = append(listed, api.Stored(m[1]))
	}
	slices.Sort(listed)
	if !slices.Equal(listed, api.StoredKinds()) {
		t.Errorf("gateway/contract/errors.md lists %v instead of %v", listed, api.StoredKinds())
	}
	source, err := os.ReadFile("stored.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(regexp.MustCompile(`(?m)^\t\w+ +Stored += "`).FindAll(source, -1)); n != len(api.StoredKinds()) {
		t.Errorf("there are %d constants, and %d kinds have a limit", n, len(api.StoredKinds()))
	}
	if _, ok := fault.As(api.Stored("x").Check(0)); ok {
		t.Error("an unknown kind has a limit")
	}
}
