package snakemake

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Bounds of a workflow.
const (
	maxSnakefile  = 4 << 20 // bytes
	maxSnakefiles = 1_000
)

// findSnakefile returns the Snakefile that Snakemake would read.
func findSnakefile() (string, error) {
	paths := []string{"Snakefile", "snakefile", "workflow/Snakefile", "workflow/snakefile"}
	for _, path := range paths {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no Snakefile here: it must be one of %s; give its path otherwise", strings.Join(paths, ", "))
}

// readWorkflow reads Snakefiles and those that they include. problems say what could not be read.
func readWorkflow(paths []string) (files []*snakefile, problems []string, err error) {
	seen := map[string]bool{}
	for todo := paths; len(todo) > 0; {
		path := filepath.Clean(todo[0])
		todo = todo[1:]
		real, err := filepath.EvalSymlinks(path)
		if errors.Is(err, fs.ErrNotExist) && len(files) > 0 { // an include that may be in an if
			problems = append(problems, path+": the included file does not exist")
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("reading %s: %w", path, err)
		}
		if seen[real] {
			continue
		}
		seen[real] = true
		if len(seen) > maxSnakefiles {
			return nil, nil, fmt.Errorf("the workflow has more than %d Snakefiles; give some of them", maxSnakefiles)
		}
		text, err := readSnakefile(path)
		if err != nil {
			return nil, nil, fmt.Errorf("reading %s: %w", path, err)
		}
		f := parse(path, text)
		if f.unfinished {
			return nil, nil, fmt.Errorf("reading %s: it ends within a string or brackets", path)
		}
		files = append(files, f)
		for _, line := range f.unread {
			problems = append(problems, fmt.Sprintf("%s:%d: write the rule with one directive per line, or its container yourself", path, line+1))
		}
		for _, d := range f.includes {
			switch {
			case !d.isText:
				problems = append(problems, fmt.Sprintf("%s:%d: the include is an expression; give that file as an argument, too", path, d.from+1))
			case strings.Contains(d.text, "://"):
				problems = append(problems, fmt.Sprintf("%s:%d: the include has an address, and cannot be changed here", path, d.from+1))
			default:
				todo = append(todo, from(path, d.text))
			}
		}
	}
	return files, problems, nil
}

// readSnakefile reads a file in the working directory: others would be changed unexpectedly.
func readSnakefile(path string) (string, error) {
	if err := isBelow(path); err != nil {
		return "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxSnakefile+1))
	switch {
	case err != nil:
		return "", err
	case len(raw) > maxSnakefile:
		return "", fmt.Errorf("it is larger than %d bytes", maxSnakefile)
	case strings.ContainsRune(string(raw), 0):
		return "", errors.New("it is not a text file")
	}
	return string(raw), nil
}

// isBelow returns an error unless a file is in the working directory or a folder in it, after links
// were followed.
func isBelow(path string) error {
	here, err := filepath.EvalSymlinks(".")
	if err != nil {
		return err
	}
	if here, err = filepath.Abs(here); err != nil {
		return err
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	if real, err = filepath.Abs(real); err != nil {
		return err
	}
	to, err := filepath.Rel(here, real)
	if err != nil || !filepath.IsLocal(to) {
		return fmt.Errorf("it is outside of %s; run the command in the folder that contains the whole workflow", here)
	}
	if slices.Contains(strings.Split(filepath.ToSlash(to), "/"), ".git") {
		return errors.New("it is in the folder of Git, which may contain secrets")
	}
	return nil
}

// environment returns the path of the environment file of a rule, or why it is not read. Files outside of
// the working directory are not: a workflow of another person must not make this program send
// them.
func (f *snakefile) environment(r *rule) (string, error) {
	switch text := r.conda.text; {
	case !r.conda.isText:
		return "", errors.New("its environment is an expression; write its container yourself")
	case strings.Contains(text, "://"):
		return "", errors.New("its environment file has an address; download it, and name the file")
	case !strings.HasSuffix(text, ".yaml") && !strings.HasSuffix(text, ".yml"):
		return "", errors.New("its environment is the name of an installed one; name a file with its packages")
	}
	path := from(f.path, r.conda.text)
	if err := isBelow(path); err != nil {
		return "", fmt.Errorf("reading the environment file %s: %w", filepath.ToSlash(path), err)
	}
	return path, nil
}

// from returns a path that a Snakefile names: relative to that file.
func from(snakefile, text string) string {
	path := filepath.FromSlash(text)
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(filepath.Dir(snakefile), path)
}
