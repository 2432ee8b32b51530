package fault_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A message is the public message of a fault as it is in the source: with formatting verbs,
// and with … for expressions.
type message struct{ kind, text, at string }

// TestMessages verifies the public messages of all services against the rules in docs/develop/style.md.
// With -v it prints them.
func TestMessages(t *testing.T) {
	t.Parallel()
	all := messages(t)
	if len(all) < 400 {
		t.Fatalf("%d messages were found, want at least 400: this test does not know all ways to create them", len(all))
	}
	for _, m := range all {
		if testing.Verbose() {
			t.Logf("%-15s %s", m.kind, m.text)
		}
		for rule, breaks := range rules() {
			if breaks(m) {
				t.Errorf("%s: %q %s", m.at, m.text, rule)
			}
		}
	}
}

// rules returns the rules by the predicate for a message that breaks one.
func rules() map[string]func(message) bool {
	internals := regexp.MustCompile(`(?i)\b(sql|grpc|protobuf|nil|null pointer|goroutine|EOF|stack|(un)?marshal|jetstream|errno)\b`)
	unspecific := regexp.MustCompile(`(?i)\b(failed to|unable to|oops|illegal|bad request|an error|error occurred)\b`)
	goVerbs := regexp.MustCompile(`%[+#]?v`)
	return map[string]func(message) bool{
		"is empty": func(m message) bool { return m.text == "" },
		"ends in a full stop or an exclamation mark": func(m message) bool {
			return strings.HasSuffix(m.text, ".") || strings.HasSuffix(m.text, "!")
		},
		"has surplus spaces": func(m message) bool {
			return strings.TrimSpace(m.text) != m.text || strings.Contains(m.text, "  ")
		},
		"names an implementation detail": func(m message) bool { return internals.MatchString(m.text) },
		"does not name the problem":      func(m message) bool { return unspecific.MatchString(m.text) },
		"formats a value with %v":        func(m message) bool { return goVerbs.MatchString(m.text) },
		"does not state when to try again": func(m message) bool {
			return m.kind == "Exhausted" && !strings.Contains(m.text, "again")
		},
	}
}

// messages returns the messages of all packages below services, sorted by kind and text.
func messages(t *testing.T) []message {
	t.Helper()
	var all []message
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "testkit") {
			return err
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if m, ok := messageOf(n); ok {
				m.at = fmt.Sprint(files.Position(n.Pos()))
				all = append(all, m)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(all, func(a, b message) int { return strings.Compare(a.kind+a.text, b.kind+b.text) })
	return all
}

// messageOf returns the message of a call of fault.KIND.New(text, …) or
// fault.KIND.Newf(text, …).
func messageOf(n ast.Node) (m message, ok bool) {
	call, ok := n.(*ast.CallExpr)
	if !ok || len(call.Args) == 0 {
		return m, false
	}
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || method.Sel.Name != "New" && method.Sel.Name != "Newf" {
		return m, false
	}
	kind, ok := method.X.(*ast.SelectorExpr)
	if !ok {
		return m, false
	}
	if pkg, isName := kind.X.(*ast.Ident); !isName || pkg.Name != "fault" {
		return m, false
	}
	m.kind = kind.Sel.Name
	m.text = textOf(call.Args[0])
	return m, true
}

// textOf returns the value of a string expression, with … for operands that are not literals.
func textOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if s, err := strconv.Unquote(e.Value); err == nil {
			return s
		}
	case *ast.BinaryExpr:
		return textOf(e.X) + textOf(e.Y)
	}
	return "…"
}
