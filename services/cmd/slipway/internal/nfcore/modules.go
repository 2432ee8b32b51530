// Package nfcore implements `slipway nf-core`, which requests images for Docker and for Singularity
// for each nf-core module with an environment file, and writes them into Nextflow configurations:
// it reads the modules (modules.go), requests the images like `slipway batch`, and writes the
// configurations (config.go).
package nfcore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Bounds of the modules.
const (
	maxVisited = 100_000 // files and folders
	maxModules = 5_000
	maxMain    = 1 << 20 // bytes of a main.nf
)

// A module is a process with its environment file.
type module struct {
	process string
	// environment is the path of the environment file, with slashes.
	environment string
}

// processHead matches the beginning of a process.
var processHead = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^[ \t]*process[ \t]+([A-Za-z_]\w{0,199})[ \t]*\{`)
})

// findModules returns the processes of all folders with a main.nf and an environment file, by name.
// problems are environment files without a process.
func findModules(roots []string) (out []module, problems []string, err error) {
	f := finder{files: map[string]string{}}
	for _, root := range roots {
		if err := f.folder(root); err != nil {
			return nil, nil, fmt.Errorf("reading the folder %s: %w", root, err)
		}
	}
	if len(f.found) == 0 && len(f.problems) == 0 {
		return nil, nil, errors.New("no folder has a main.nf with a process and an environment.yml; give the folder of the modules, e.g. modules")
	}
	slices.SortFunc(f.found, func(a, b module) int { return strings.Compare(a.process, b.process) })
	return slices.Compact(f.found), f.problems, nil
}

// A finder finds the modules of folders.
type finder struct {
	visited  int
	found    []module
	problems []string
	// files are the environment files of processes.
	files map[string]string
}

func (f *finder) folder(root string) error {
	real, err := filepath.EvalSymlinks(root) // WalkDir does not follow links
	if err != nil {
		return err
	}
	return filepath.WalkDir(real, func(path string, d fs.DirEntry, err error) error {
		f.visited++
		switch {
		case err != nil:
			return err
		case f.visited > maxVisited:
			return fmt.Errorf("there are more than %d files; name a folder in it", maxVisited)
		case d.IsDir() && path != real && (strings.HasPrefix(d.Name(), ".") || d.Name() == "tests"):
			return fs.SkipDir
		case d.Type().IsRegular() && d.Name() == "environment.yml":
			return f.module(filepath.Join(filepath.Dir(path), "main.nf"), filepath.ToSlash(filepath.Join(root, strings.TrimPrefix(path, real))))
		}
		return nil
	})
}

// module adds the processes of a main.nf, with their environment file.
func (f *finder) module(main, file string) error {
	names, err := processes(main)
	if err != nil {
		f.problems = append(f.problems, fmt.Sprintf("%s: %v", file, err))
	}
	for _, name := range names {
		if other := f.files[name]; other != "" && other != file {
			f.problems = append(f.problems, fmt.Sprintf("%s: the process %s is also in the folder of %s, and a configuration cannot distinguish them", file, name, other))
			continue
		}
		f.files[name] = file
		f.found = append(f.found, module{process: name, environment: file})
	}
	if len(f.found) > maxModules {
		return fmt.Errorf("there are more than %d processes; name a folder in it", maxModules)
	}
	return nil
}

// processes returns the names of the processes in a file.
func processes(path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("its module has no main.nf: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxMain+1))
	if err == nil && len(raw) > maxMain {
		err = fmt.Errorf("the file is larger than %d bytes", maxMain)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	var out []string
	for _, m := range processHead().FindAllSubmatch(raw, -1) {
		out = append(out, string(m[1]))
	}
	if out == nil {
		err = fmt.Errorf("%s has no process", filepath.ToSlash(path))
	}
	return out, err
}
