package imports_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"

	"slipway.dev/services/internal/imports"
)

type listed struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
}

// list returns every package of the repository, as the go tool reports it.
func list(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports",
		"slipway.dev/proto/...", "slipway.dev/gateway/...", "slipway.dev/services/...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []listed
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func TestImports(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, p := range list(t) {
		name := strings.TrimPrefix(p.ImportPath, imports.Ours)
		if name == "services/internal/imports" {
			continue
		}
		rule, ok := ruleFor(name)
		if !ok {
			t.Errorf("no rule matches %s", name)
			continue
		}
		used[rule.Package] = true
		for _, imp := range p.Imports {
			if why := rule.refuses(imp); why != "" {
				t.Errorf("%s imports %s: %s", name, imp, why)
			}
		}
		// Tests may also import shared packages and test kits.
		for _, imp := range append(p.TestImports, p.XTestImports...) {
			ours, is := strings.CutPrefix(imp, imports.Ours)
			if !is || ours == name || ours == "gateway/contracttest" || strings.HasPrefix(ours, "services/internal/") {
				continue
			}
			if why := rule.refuses(imp); why != "" {
				t.Errorf("a test of %s imports %s: %s", name, imp, why)
			}
		}
	}
	for _, r := range imports.Rules() {
		if !used[r.Package] {
			t.Errorf("the rule for %s matches no package", r.Package)
		}
	}
}

type rule imports.Rule

func ruleFor(name string) (rule, bool) {
	for _, r := range imports.Rules() {
		if fits(r.Package, name) {
			return rule(r), true
		}
	}
	return rule{}, false
}

// refuses returns why the rule does not allow an import; "" if it does.
func (r rule) refuses(imp string) string {
	if ours, ok := strings.CutPrefix(imp, imports.Ours); ok {
		for _, m := range r.May {
			if fits(m, ours) {
				return ""
			}
		}
		return "the table does not allow it"
	}
	for _, n := range r.Never {
		if fits(n, imp) {
			return "other packages own this library"
		}
	}
	isStd := !strings.Contains(strings.Split(imp, "/")[0], ".")
	if r.Only == nil || isStd {
		return ""
	}
	for _, o := range r.Only {
		if fits(o, imp) {
			return ""
		}
	}
	return "the package is limited to fewer libraries"
}

func fits(pattern, path string) bool {
	if folder, ok := strings.CutSuffix(pattern, "..."); ok {
		return strings.HasPrefix(path+"/", folder)
	}
	return pattern == path
}
