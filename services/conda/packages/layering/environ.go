package layering

import (
	"context"
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"slipway.dev/services/conda/packages/activation"
	"slipway.dev/services/conda/packages/artifact"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/bounded"
)

// variable matches the variable names that files in env_vars.d may set. PATH is excluded
// separately, because such a file would replace all of it.
var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

// activated returns the variables of a shell that starts with those of the base image and
// activates the environment. Like conda, it applies the files in env_vars.d, then the
// environment's own variables, then the scripts in activate.d, each in the order of their
// names. refused lists the files that cannot be evaluated, which have no effect, with the
// reasons. The error is that of ctx.
func (e Environment) activated(ctx context.Context, base []string) (env []string, refused []refusal, err error) {
	var scripts []artifact.Script
	for _, p := range e.Packages {
		scripts = append(scripts, p.Activation...)
	}
	slices.SortStableFunc(scripts, func(a, b artifact.Script) int { return strings.Compare(a.Path, b.Path) })
	before := startVariables(base)
	shell := activation.New(e.seen(), before)
	for _, s := range scripts {
		if path.Ext(s.Path) != ".json" {
			continue
		}
		set, ok := document(s.Text)
		if !ok {
			refused = append(refused, refusal{s.Path, "it is not a JSON object of strings, or sets a variable that an image cannot set"})
			continue
		}
		if err := shell.SetAll(set); err != nil {
			refused = append(refused, refusal{s.Path, err.Error()})
		}
	}
	for name, value := range e.Variables {
		shell.Set(name, value)
	}
	for i, s := range scripts {
		if path.Ext(s.Path) == ".json" || i+1 < len(scripts) && scripts[i+1].Path == s.Path { // the last package of a path wins
			continue
		}
		if err := shell.Source(ctx, s.Path, s.Text); err != nil {
			if ctx.Err() != nil {
				return nil, nil, ctx.Err()
			}
			refused = append(refused, refusal{s.Path, err.Error()})
		}
	}
	return merged(base, shell.Exported()), refused, nil
}

// A refusal is a script or file that cannot be evaluated, with the reason.
type refusal struct{ path, why string }

// String returns the refusal for a log.
func (r refusal) String() string { return r.path + " (" + r.why + ")" }

// startVariables returns the variables of the base image, with those that every environment
// sets.
func startVariables(base []string) map[string]string {
	out := map[string]string{}
	for _, v := range base {
		if name, value, is := strings.Cut(v, "="); is {
			out[name] = value
		}
	}
	out["PATH"] = spec.Prefix + "/bin:" + pathOf(base)
	out["MAMBA_ROOT_PREFIX"], out["CONDA_PREFIX"] = spec.Prefix, spec.Prefix
	return out
}

// seen returns the environment as activation scripts see it. The paths are sorted on first
// use.
func (e Environment) seen() activation.Environment {
	machines := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}
	names := sync.OnceValue(func() sortedPaths {
		var all []string
		for _, p := range e.Packages {
			all = append(all, p.Paths...)
		}
		slices.Sort(all)
		return all
	})
	return activation.Environment{
		Prefix: spec.Prefix, Machine: machines[e.Platform.Architecture],
		Kind:  func(path string) activation.Kind { return names().kind(path) },
		Files: func(folder string) []string { return names().files(folder) },
	}
}

// sortedPaths holds the paths of the files of an environment.
type sortedPaths []string

func (s sortedPaths) kind(name string) activation.Kind {
	if _, is := slices.BinarySearch(s, name); is {
		return activation.File
	}
	if at, _ := slices.BinarySearch(s, name+"/"); at < len(s) && strings.HasPrefix(s[at], name+"/") {
		return activation.Folder
	}
	return activation.None
}

// files returns the names in a folder.
func (s sortedPaths) files(folder string) []string {
	if folder != "" {
		folder += "/"
	}
	var out []string
	for at, _ := slices.BinarySearch(s, folder); at < len(s) && strings.HasPrefix(s[at], folder); {
		name, _, inner := strings.Cut(s[at][len(folder):], "/")
		if name != "" && (len(out) == 0 || out[len(out)-1] != name) {
			out = append(out, name)
		}
		if !inner {
			at++
			continue
		}
		next, _ := slices.BinarySearch(s[at:], folder+name+"0") // "0" follows "/"
		at += max(next, 1)
	}
	return out
}

// document parses a file of env_vars.d: a JSON object of strings.
func document(text string) (map[string]string, bool) {
	if (bounded.Limits{Depth: 2, Values: 1000}).Check([]byte(text)) != nil {
		return nil, false
	}
	var set map[string]string
	if json.Unmarshal([]byte(text), &set) != nil {
		return nil, false
	}
	for name, value := range set {
		if !settable(name, value) {
			return nil, false
		}
	}
	return set, true
}

func settable(name, value string) bool {
	return variable.MatchString(name) && name != "PATH" && !strings.ContainsRune(value, 0)
}
