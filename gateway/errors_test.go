package gateway_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"slipway.dev/gateway"
)

// TestCodesAreDocumented checks that the contract lists the code of each status, with the
// status.
func TestCodesAreDocumented(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("contract/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	for status := 400; status < 600; status++ {
		code := gateway.CodeOf(status)
		row := fmt.Sprintf("\n| `%s` | %d |", code, status)
		if code != gateway.CodeOf(400) && code != gateway.CodeOf(500) && !strings.Contains(string(raw), row) || !strings.Contains(string(raw), "\n| `"+code+"` |") {
			t.Errorf("gateway/contract/errors.md has no row for %d: %s", status, code)
		}
	}
}
