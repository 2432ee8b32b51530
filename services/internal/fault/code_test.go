package fault_test

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"

	"slipway.dev/services/internal/fault"
)

// TestCodes checks that a code and a detail are restored, and that the metadata is not changed.
func TestCodes(t *testing.T) {
	t.Parallel()
	detail := &errdetails.LocalizedMessage{Message: "more"}
	sent := fault.Invalid.Newf("no").WithCode(fault.CondaConflict).WithDetail(detail)
	sent.Meta = map[string]string{"a": "b"}
	got, ok := fault.As(fault.FromStatus(sent.GRPCStatus().Err()))
	if !ok || got.Code != fault.CondaConflict || !proto.Equal(got.Detail, detail) || len(got.Meta) != 1 || len(sent.Meta) != 1 {
		t.Errorf("it was restored as %+v", got)
	}
	moved := sent.To(fault.NotFound)
	if moved.Kind != fault.NotFound || moved.Code != sent.Code || moved.Detail != sent.Detail || moved.Public != "no" || !errors.Is(moved, fault.Invalid) {
		t.Errorf("it was moved as %+v", moved)
	}
	if got, _ := fault.As(fault.Coded(fault.CondaChannel, sent)); got.Code != fault.CondaConflict {
		t.Errorf("the code was replaced by %s", got.Code)
	}
	plain := fault.Denied.Newf("no")
	if got, _ := fault.As(fault.Coded(fault.CondaChannel, plain)); got.Code != fault.CondaChannel || plain.Code != "" {
		t.Errorf("the code is %q, and the original has %q", got.Code, plain.Code)
	}
	if err := fault.Coded(fault.CondaChannel, errors.ErrUnsupported); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("an error without a fault was changed to %v", err)
	}
}

// TestLongDetail checks that a detail that is too long for the trailers of a call is left out.
func TestLongDetail(t *testing.T) {
	t.Parallel()
	e := fault.Invalid.Newf("no").WithDetail(&errdetails.LocalizedMessage{Message: strings.Repeat("x", 1<<20)})
	if e.Detail != nil {
		t.Error("it was kept")
	}
}

func TestLimitCode(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]fault.Code{"builds": "limit.builds", "device codes": "limit.deviceCodes", "sign-ins": "limit.signIns"} {
		if got := fault.LimitCode(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// TestCodesAreDocumented checks that the contract lists every code.
func TestCodesAreDocumented(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("code.go")
	if err != nil {
		t.Fatal(err)
	}
	contract, err := os.ReadFile("../../../gateway/contract/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`Code = "([a-z]+\.[a-zA-Z]+)"`).FindAllSubmatch(source, -1)
	if len(found) < 8 {
		t.Errorf("only %d codes were found", len(found))
	}
	for _, m := range found {
		if !strings.Contains(string(contract), "\n| `"+string(m[1])+"` |") {
			t.Errorf("gateway/contract/errors.md does not list %s", m[1])
		}
	}
}
