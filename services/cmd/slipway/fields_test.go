package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"slipway.dev/services/cmd/slipway/internal/output"
)

// TestFieldsOfCommands checks that all commands with --json know the fields of what they print.
func TestFieldsOfCommands(t *testing.T) {
	t.Parallel()
	const begin = "give --json one or more fields with commas between them: "
	found := 0
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, below := range cmd.Commands() {
			visit(below)
		}
		if f := cmd.Flags().Lookup("json"); f == nil || f.Value.Type() == "bool" {
			return
		}
		found++
		fields := strings.Split(strings.TrimPrefix(output.FieldsHelp(cmd), begin), ", ")
		if os.Getenv("SLIPWAY_TEST_PRINT") != "" {
			t.Log(cmd.CommandPath(), fields)
		}
		if fields[0] == "" || !slices.IsSorted(fields) {
			t.Errorf("%s: the fields are %q", cmd.CommandPath(), fields)
		}
	}
	visit(fresh())
	if found < 60 {
		t.Errorf("only %d commands have --json", found)
	}
}

// TestCompleteFields completes the last of several fields.
func TestCompleteFields(t *testing.T) {
	t.Parallel()
	got := slipway(t.Context(), nil, "__complete", "builds", "--json", "buildId,sta")
	if got.code != 0 || !strings.Contains(got.out, "buildId,status\n") || strings.Contains(got.out, "buildId,buildId") {
		t.Errorf("%+v", got)
	}
}

// TestMirrorFields selects fields of a document that is a list.
func TestMirrorFields(t *testing.T) {
	t.Parallel()
	url, _ := answering(t, map[string]string{"POST /v1alpha2/container": `{"requestId":"abc123","targetImage":"h/m/a:1"}`})
	got := slipway(t.Context(), nil, "mirror", "a:1", "--to", "h.example.org/m", "--server", url, "--json", "requestId,digestless")
	if got.code != 2 || !strings.Contains(got.errs, "there is no field") {
		t.Errorf("%+v", got)
	}
	if got = slipway(t.Context(), nil, "mirror", "a:1", "--to", "h.example.org/m", "--server", url, "--json", "requestId"); !sameJSON(got.out, `[{"requestId":"abc123"}]`) {
		t.Errorf("%+v", got)
	}
}
