package main

import (
	"bytes"
	"testing"

	"github.com/speakeasy-api/openapi/linter"
	"github.com/speakeasy-api/openapi/openapi"
	rules "github.com/speakeasy-api/openapi/openapi/linter"

	documents "slipway.dev/proto/gen/openapi"
)

// TestLint holds the documents against every rule of a linter, but for those that
// contradict the contract.
func TestLint(t *testing.T) {
	t.Parallel()
	off, on := false, true
	config := &linter.Config{
		Extends: []string{"all"},
		Rules: []linter.RuleEntry{
			{ID: "style-info-contact", Disabled: &on},             // an installation's operator is not ours to name
			{ID: "style-no-verbs-in-path", Disabled: &on},         // paths are what existing clients call
			{ID: "style-paths-kebab-case", Disabled: &on},         // likewise
			{ID: "style-operation-error-response", Disabled: &on}, // what takes nothing can refuse nothing
			{ID: "style-tags-alphabetical", Disabled: &on},        // the order in which one needs them
			{ID: "style-description-duplication", Disabled: &on},  // two ways to give one thing say so
			{ID: "style-oas3-api-servers", Disabled: &on},         // wherever the document was read
			{ID: "oas3-example-missing", Disabled: &on},           // examples are whole requests and answers
			{ID: "semantic-no-ambiguous-paths", Disabled: &on},    // fixed paths go before those with variables
		},
		// What is too long or too much is answered 400 and 413; schemas do not repeat it.
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
