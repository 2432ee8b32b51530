package envfile_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slipway.dev/services/conda/envfile"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
)

// TestVariablesOfEnvironment reads variables as they are written, and rejects those that an
// image cannot have.
func TestVariablesOfEnvironment(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in, why string
		want    map[string]string
	}{
		{in: "{A: b, N: 1.10, Y: yes, E: ''}", want: map[string]string{"A": "b", "N": "1.10", "Y": "yes", "E": ""}},
		{in: "", want: nil},
		{in: "[a]", why: "environment: variables: it must be a mapping"},
		{in: "text", why: "it must be a mapping"},
		{in: "{A: [b]}", why: `"A" must be one value`},
		{in: "{PATH: /x}", why: "PATH is set by the image"},
		{in: "{CONDA_PREFIX: /x}", why: "CONDA_PREFIX is set by the image"},
		{in: "{'A B': c}", why: "is not the name of an environment variable"},
		{in: `{A: "x\ny"}`, why: "the value of A must be one line"},
		{in: "{A: " + strings.Repeat("x", 1900) + "}", want: map[string]string{"A": strings.Repeat("x", 1900)}},
	} {
		e, err := envfile.Read("environment", "dependencies: [bwa]\nvariables: "+c.in+"\n")
		if c.why != "" {
			if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), c.why) {
				t.Errorf("%s: %v, want %q", c.in, err, c.why)
			}
			continue
		}
		if diff := cmp.Diff(c.want, e.Variables); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", c.in, err, diff)
		}
	}
	many := map[string]string{}
	for i := range 300 {
		many["A"+strings.Repeat("a", i%100)+strings.Repeat("b", i/100)] = ""
	}
	if err := spec.CheckVariables(many); !errors.Is(err, fault.Invalid) {
		t.Errorf("300 variables: %v", err)
	}
}
