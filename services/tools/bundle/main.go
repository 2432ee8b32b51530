// Command bundle writes the scripts and styles of the web page, as slipwayd serves them, to a folder: minified, and
// with one file for everything that the first view needs. Other views are files of their own, which import that file.
// Their names have a hash, so that a page never loads a view of another version of itself. Equal sources have equal
// results.
//
//	bundle SOURCES RESULTS
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/evanw/esbuild/pkg/api"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: bundle SOURCES RESULTS")
		os.Exit(2)
	}
	if err := bundle(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "bundle:", err)
		os.Exit(1)
	}
}

// The scripts that documents load.
const (
	first  = "app.js"
	manual = "docs.js"
)

// bundle replaces the files in the folder to. Nothing is written if the sources have an error.
func bundle(from, to string) error {
	from, err := filepath.Abs(from)
	if err != nil {
		return err
	}
	later, err := loadedLater(from)
	if err != nil {
		return err
	}
	styles, err := filepath.Glob(filepath.Join(from, "*.css"))
	if err != nil {
		return err
	}
	views, err := build(from, to, withFirst(first, later), []string{first})
	if err != nil {
		return err
	}
	rest, err := build(from, to, nil, append(styles, manual))
	if err != nil {
		return err
	}
	return replace(to, append(views, rest...))
}

// loaded matches imports that are evaluated when a view is opened. Names of types are followed by a full stop.
var loaded = regexp.MustCompile(`import\("\./([a-z]+\.js)"\)[,);} ]`)

// loadedLater returns the scripts that other scripts load when they are needed.
func loadedLater(from string) (names []string, err error) {
	scripts, err := filepath.Glob(filepath.Join(from, "*.js"))
	if err != nil {
		return nil, err
	}
	for _, script := range scripts {
		text, err := os.ReadFile(script)
		if err != nil {
			return nil, err
		}
		for _, m := range loaded.FindAllSubmatch(text, -1) {
			names = append(names, string(m[1]))
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// build returns the files of some sources.
func build(from, to string, plugins []api.Plugin, sources []string) ([]api.OutputFile, error) {
	result := api.Build(api.BuildOptions{
		AbsWorkingDir: from, EntryPoints: sources, Outdir: to, EntryNames: "[name]", ChunkNames: "[name]-[hash]",
		Bundle: true, Splitting: true, Format: api.FormatESModule, Target: api.ES2022, Charset: api.CharsetUTF8,
		MinifyWhitespace: true, MinifyIdentifiers: true, MinifySyntax: true,
		LegalComments: api.LegalCommentsNone, // the licences are files of their own
		Plugins:       append(plugins, packages(from)), LogLevel: api.LogLevelSilent,
	})
	var problems []error
	for _, m := range slices.Concat(result.Errors, result.Warnings) {
		at := ""
		if m.Location != nil {
			at = fmt.Sprintf("%s:%d: ", m.Location.File, m.Location.Line)
		}
		problems = append(problems, errors.New(at+m.Text))
	}
	return result.OutputFiles, errors.Join(problems...)
}

// packages finds the packages of npm among the sources.
func packages(from string) api.Plugin {
	known := map[string]string{
		"preact": "preact.mjs", "preact/hooks": "hooks.mjs", "htm": "htm.module.js",
		"@preact/signals": "signals.module.js", "@preact/signals-core": "signals-core.module.js",
	}
	return api.Plugin{Name: "packages", Setup: func(b api.PluginBuild) {
		b.OnResolve(api.OnResolveOptions{Filter: `^@?[a-z]`}, func(a api.OnResolveArgs) (api.OnResolveResult, error) {
			if a.Kind == api.ResolveEntryPoint {
				return api.OnResolveResult{Path: filepath.Join(from, filepath.Base(a.Path))}, nil
			}
			if known[a.Path] == "" {
				return api.OnResolveResult{}, fmt.Errorf("the package %s is not in the folder npm", a.Path)
			}
			return api.OnResolveResult{Path: filepath.Join(from, "npm", known[a.Path])}, nil
		})
	}}
}

// withFirst makes scripts import another one. Without it, each set of views that share code would have a file of its
// own, so that the first view would need many.
func withFirst(name string, scripts []string) []api.Plugin {
	return []api.Plugin{{Name: "first", Setup: func(b api.PluginBuild) {
		b.OnLoad(api.OnLoadOptions{Filter: `[\\/][a-z]+\.js$`}, func(a api.OnLoadArgs) (api.OnLoadResult, error) {
			raw, err := os.ReadFile(a.Path)
			text := string(raw)
			if slices.Contains(scripts, filepath.Base(a.Path)) {
				text += "\nimport \"./" + name + "\";\n"
			}
			return api.OnLoadResult{Contents: &text, Loader: api.LoaderJS}, err
		})
	}}}
}

// replace deletes the files of a folder and writes others.
func replace(to string, files []api.OutputFile) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	old, err := filepath.Glob(filepath.Join(to, "*"))
	if err != nil {
		return err
	}
	for _, path := range old {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(to, filepath.Base(f.Path)), f.Contents, 0o644); err != nil {
			return err
		}
	}
	return nil
}
