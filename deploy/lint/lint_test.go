package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestExceptionsHaveReasons reads valid and invalid lists of exceptions, including
// kube-score.txt.
func TestExceptionsHaveReasons(t *testing.T) {
	t.Parallel()
	if got, err := readExceptions("kube-score.txt"); err != nil || len(got) == 0 {
		t.Errorf("kube-score.txt: %v, %v", got, err)
	}
	path := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(path, []byte("# why\n* pod-networkpolicy\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readExceptions(path); err == nil {
		t.Error("an exception without a reason was accepted")
	}
}

// TestConvert checks that the schemas are self-contained and reject unknown fields.
func TestConvert(t *testing.T) {
	t.Parallel()
	c := converter{map[string]object{
		"v1.Thing": {"properties": object{"size": object{"$ref": "#/definitions/Quantity"}, "child": object{"$ref": "#/definitions/v1.Thing"}, "port": object{"format": "int-or-string", "type": "string"}}},
		"Quantity": {"type": "string", "description": "Quantity is a fixed-point representation of a number."},
	}}
	got := c.object(object{"$ref": "#/definitions/v1.Thing"}, nil)
	if got["additionalProperties"] != false {
		t.Error("unknown fields are accepted")
	}
	props := properties(got)
	for name, want := range map[string]int{"size": 2, "port": 2} {
		p, _ := props[name].(object)
		if types, _ := p["type"].([]string); len(types) != want {
			t.Errorf("%s is %v", name, p)
		}
	}
	if child, _ := props["child"].(object); len(child) != 0 {
		t.Errorf("a recursive schema: %v", child)
	}
}

// TestCompose accepts compose.yaml, and rejects invalid files.
func TestCompose(t *testing.T) {
	t.Parallel()
	if n, err := checkCompose(t.Context(), "../compose.yaml"); err != nil || n < 6 {
		t.Errorf("compose.yaml: %d, %v", n, err)
	}
	for name, text := range map[string]string{
		"an unknown key": "services: {a: {image: 'a:1', mem_limit: 1g, imag: b}}", "no version": "services: {a: {image: a, mem_limit: 1g}}",
		"no memory limit":    "services: {a: {image: 'a:1'}}",
		"an unknown service": "services: {a: {image: 'a:1', mem_limit: 1g, depends_on: [b]}}",
	} {
		path := filepath.Join(t.TempDir(), "compose.yaml")
		if err := os.WriteFile(path, []byte("name: x\n"+text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := checkCompose(t.Context(), path); err == nil || strings.Contains(err.Error(), "no such file") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
