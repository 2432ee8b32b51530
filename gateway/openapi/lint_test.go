package main

import (
	"bytes"
	"testing"

	"github.com/speakeasy-api/openapi/linter"
	"github.com/speakeasy-api/openapi/openapi"
	rules "github.com/speakeasy-api/openapi/openapi/linter"

	documents "slipway.dev/proto/gen/openapi"
)

// TestLint checks the documents with all rules of a linter, except those that contradict
// the contract.
func TestLint(t *testing.T) {
	t.Parallel()
	off, on := false, true
	config := &linter.Config{
		Extends: []string{"all"},
		Rules: []linter.RuleEntry{
			{ID: "style-info-contact", Disabled: &on},             // an installation's operator is unknown
			{ID: "style-no-verbs-in-path", Disabled: &on},         // existing clients use these paths
			{ID: "style-paths-kebab-case", Disabled: &on},         // likewise
			{ID: "style-operation-error-response", Disabled: &on}, // an operation without input cannot reject input
			{ID: "style-tags-alphabetical", Disabled: &on},        // in the order of use
			{ID: "style-description-duplication", Disabled: &on},  // two alternatives have the same description
			{ID: "style-oas3-api-servers", Disabled: &on},         // relative to where the document was read
			{ID: "oas3-example-missing", Disabled: &on},           // examples are whole requests and responses
			{ID: "semantic-no-ambiguous-paths", Disabled: &on},    // fixed paths take precedence over those with variables
		},
		// Input that is too long or too large is 400 or 413; schemas do not repeat that.
		Categories: map[string]linter.CategoryConfig{"security": {Enabled: &off}},
	}
	l, err := rules.NewLinter(config)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"container.json": documents.Container, "container.yml": documents.ContainerYAML,
		"platform.json": documents.Platform, "platform.yml": documents.PlatformYAML,
	} {
		doc, problems, err := openapi.Unmarshal(t.Context(), bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		out, err := l.Lint(t.Context(), linter.NewDocumentInfo(doc, name), problems, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(out.Results) > 0 {
			t.Errorf("%s:\n%s", name, out.FormatText())
		}
	}
}
