package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestDocsNameCommands: every command that a page tells people to type is there.
func TestDocsNameCommands(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"README.md", "deploy/nextflow.md"} {
		raw, err := os.ReadFile("../../../" + page)
		must(t, err)
		found := regexp.MustCompile("(?:`|\\(|bin/|of: )slipway ((?:[a-z-]+ ?)+)").FindAllStringSubmatch(string(raw), -1)
		if len(found) == 0 {
			t.Errorf("%s names no command", page)
		}
		for _, m := range found {
			root := command(os.Getenv)
			root.InitDefaultCompletionCmd()
			cmd, rest, err := root.Find(strings.Fields(m[1]))
			if err != nil || !cmd.HasParent() || cmd.HasSubCommands() && cmd.RunE == nil && len(rest) > 0 {
				t.Errorf("%s: there is no command `slipway %s`: %v", page, m[1], err)
			}
		}
	}
}
