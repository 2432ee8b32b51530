package main

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestConstructors checks that the names of constructors are those of their commands, and that a command does not depend on the others.
func TestConstructors(t *testing.T) {
	t.Parallel()
	whole := fresh()
	var names []string
	for _, c := range whole.Commands() {
		names = append(names, c.Name())
	}
	for _, c := range constructors(os.Getenv) {
		name := c.name
		if !slices.Contains(names, name) {
			t.Errorf("the constructor %q returns a command with another name", name)
			continue
		}
		alone := command(os.Getenv, name)
		if list := alone.Commands(); len(list) != 1 || list[0].Name() != name {
			t.Errorf("the command line of %q has other commands", name)
			continue
		}
		c, _, err := whole.Find([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := alone.Commands()[0].UsageString(), c.UsageString(); got != want {
			t.Errorf("the usage of %q is\n%s\nwithout other commands, and\n%s\nwith them", name, got, want)
		}
	}
}

// TestNameOfAnotherProgram checks that the program replaces Singularity and Apptainer under their names.
func TestNameOfAnotherProgram(t *testing.T) {
	t.Parallel()
	for call, want := range map[string]string{
		"slipway run x":                    "run x",
		"/usr/bin/slipway":                 "",
		"apptainer exec x true":            "singularity exec x true",
		"/opt/bin/singularity --version":   "singularity --version",
		"/opt/singularity/slipway info":    "info",
		"apptainer.old exec x singularity": "exec x singularity",
	} {
		if got := strings.Join(arguments(strings.Fields(call)), " "); got != want {
			t.Errorf("%s: %q", call, got)
		}
	}
}

// TestAllCommands checks that command lines that do not begin with a command find all commands.
func TestAllCommands(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"help", "run"}, {"--no-pager", "run", "--help"}} {
		if got := slipway(t.Context(), nil, args...); got.code != 0 || !strings.Contains(got.out, "slipway run ENVIRONMENT") {
			t.Errorf("%q: exit code %d, %s%s", args, got.code, got.out, got.errs)
		}
	}
	got := slipway(t.Context(), nil, "__complete", "she")
	if !strings.Contains(got.out, "shell\t") {
		t.Errorf("completing she: %s%s", got.out, got.errs)
	}
	if got := slipway(t.Context(), nil, "shel"); got.code != 2 || !strings.Contains(got.errs, "slipway shell") {
		t.Errorf("exit code %d, %s", got.code, got.errs)
	}
}
