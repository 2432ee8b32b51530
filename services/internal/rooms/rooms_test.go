package rooms_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"

	"slipway.dev/services/internal/rooms"
)

type listed struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
}

// list asks the go tool for every package of ours.
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

func TestImportsKeepToTheTable(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, p := range list(t) {
		name := strings.TrimPrefix(p.ImportPath, rooms.Ours)
		if name == "services/internal/rooms" {
			continue
		}
		rule, ok := ruleFor(name)
		if !ok {
			t.Errorf("%s stands in no rule", name)
			continue
		}
		used[rule.Package] = true
		for _, imp := range p.Imports {
			if why := rule.refuses(imp); why != "" {
				t.Errorf("%s imports %s: %s", name, imp, why)
			}
		}
		// Tests stand on plumbing and test kits, but reach no further into other rooms.
		for _, imp := range append(p.TestImports, p.XTestImports...) {
			ours, is := strings.CutPrefix(imp, rooms.Ours)
			if !is || ours == name || ours == "gateway/contracttest" || strings.HasPrefix(ours, "services/internal/") {
				continue
			}
			if why := rule.refuses(imp); why != "" {
				t.Errorf("a test of %s imports %s: %s", name, imp, why)
			}
		}
	}
	for _, r := range rooms.Rules() {
		if !used[r.Package] {
			t.Errorf("no package is under the rule for %s", r.Package)
		}
	}
}

type rule rooms.Rule

func ruleFor(name string) (rule, bool) {
	for _, r := range rooms.Rules() {
		if fits(r.Package, name) {
			return rule(r), true
		}
	}
	return rule{}, false
}

// refuses says why the rule does not allow an import; "" when it does.
func (r rule) refuses(imp string) string {
	if ours, ok := strings.CutPrefix(imp, rooms.Ours); ok {
		for _, m := range r.May {
			if fits(m, ours) {
				return ""
			}
		}
		return "the table of rooms has no such arrow"
	}
	for _, n := range r.Never {
		if fits(n, imp) {
			return "the library belongs to other rooms"
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
	return "the package keeps to fewer libraries"
}

func fits(pattern, path string) bool {
	if folder, ok := strings.CutSuffix(pattern, "..."); ok {
		return strings.HasPrefix(path+"/", folder)
	}
	return pattern == path
}
