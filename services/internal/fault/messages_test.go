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

// message is a public sentence, as the source has it: with its verbs, and with … where
// something else follows.
type message struct{ kind, text, at string }

// TestMessages reads every public sentence of the services, and prints them with -v. It
// holds them to what CONTRIBUTING says of messages.
func TestMessages(t *testing.T) {
	t.Parallel()
	all := messages(t)
	if len(all) < 400 {
		t.Fatalf("%d messages are found: they are made in another way than this test knows", len(all))
	}
	for _, m := range all {
		t.Logf("%-15s %s", m.kind, m.text)
		for rule, breaks := range rules() {
			if breaks(m) {
				t.Errorf("%s: %q %s", m.at, m.text, rule)
			}
		}
	}
}

// rules are what no message does.
func rules() map[string]func(message) bool {
	internals := regexp.MustCompile(`(?i)\b(sql|grpc|protobuf|nil|null pointer|goroutine|EOF|stack|(un)?marshal|jetstream|errno)\b`)
	blames := regexp.MustCompile(`(?i)\b(failed to|unable to|oops|illegal|bad request|an error|error occurred)\b`)
	goes := regexp.MustCompile(`%[+#]?v`)
	return map[string]func(message) bool{
		"is empty": func(m message) bool { return m.text == "" },
		"ends like a sentence of prose": func(m message) bool {
			return strings.HasSuffix(m.text, ".") || strings.HasSuffix(m.text, "!")
		},
		"has blanks at an end, or two of them": func(m message) bool {
			return strings.TrimSpace(m.text) != m.text || strings.Contains(m.text, "  ")
		},
		"speaks of what is inside":                   func(m message) bool { return internals.MatchString(m.text) },
		"says that it did not work, instead of what": func(m message) bool { return blames.MatchString(m.text) },
		"shows a value as Go does":                   func(m message) bool { return goes.MatchString(m.text) },
		"does not say when, or how, there may be more": func(m message) bool {
			return m.kind == "Exhausted" && !strings.Contains(m.text, "again")
		},
	}
}

// messages are those of all packages below services, in the order of kind and text.
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

// messageOf reads fault.KIND.New(text, …) and fault.KIND.Newf(text, …).
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
	if room, isName := kind.X.(*ast.Ident); !isName || room.Name != "fault" {
		return m, false
	}
	m.kind = kind.Sel.Name
	m.text = textOf(call.Args[0])
	return m, true
}

// textOf is a text in quotes, or several that are joined; … stands for what is not
// known here.
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
