package batch

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
)

// maxVisited is how many files and folders of a folder are visited.
const maxVisited = 100_000

// read returns the requests that inputs list: files, folders, or "-" for standard input. Their
// names are unique.
func read(cmd *cobra.Command, inputs []string) ([]entry, error) {
	return readWith(inputs, func(input string) ([]entry, error) { return entriesOf(cmd, input, nil) })
}

// readWith returns the requests of all inputs, with the contents of the files that list them.
func readWith(inputs []string, entriesOf func(input string) ([]entry, error)) ([]entry, error) {
	var all []entry
	for _, input := range inputs {
		some, err := entriesOf(input)
		if err != nil {
			return nil, err
		}
		if all = append(all, some...); len(all) > maxEntries {
			return nil, fmt.Errorf("the inputs list more than %d containers; split them", maxEntries)
		}
	}
	size := 0
	for i, e := range all {
		if e.path == "" {
			continue
		}
		text, err := contents(e.path)
		if size += len(text); size > maxFiles {
			return nil, fmt.Errorf("the environment files are larger than %d bytes; split the inputs", maxFiles)
		}
		all[i].request, all[i].err = withDefaults(environmentRequest(text), requestOrEmpty(e.request)), err
	}
	return unique(all), nil
}

func requestOrEmpty(r *containerv1.ContainerRequest) *containerv1.ContainerRequest {
	if r == nil {
		return &containerv1.ContainerRequest{}
	}
	return r
}

// entriesOf returns the requests of one input, which is read once: it may be a pipe. locked returns
// those of a lock file; it is nil if a lock file is no valid input.
func entriesOf(cmd *cobra.Command, input string, locked func(lockFile) []entry) ([]entry, error) {
	from := cmd.InOrStdin()
	if input != "-" {
		info, err := os.Stat(input)
		if err != nil {
			return nil, fmt.Errorf("reading the input: %w", err)
		}
		if info.IsDir() {
			return folder(input)
		}
		f, err := os.Open(input)
		if err != nil {
			return nil, fmt.Errorf("reading the input: %w", err)
		}
		defer f.Close()
		from = f
	}
	text := bufio.NewReader(from)
	if head, _ := text.Peek(64); locked != nil && isLock(head) { // an error is that of the next read
		raw, err := limited(text, maxLock)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", input, err)
		}
		l, err := parseLock(raw)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", input, err)
		}
		return locked(l), nil
	}
	raw, err := limited(text, maxInput)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", input, err)
	}
	return parse(input, raw)
}

// folder returns the environment files of the modules in a folder of nf-core modules.
func folder(root string) ([]entry, error) {
	var out []entry
	visited := 0
	real, err := filepath.EvalSymlinks(root) // WalkDir does not follow links
	if err != nil {
		return nil, fmt.Errorf("reading the folder %s: %w", root, err)
	}
	err = filepath.WalkDir(real, func(path string, d fs.DirEntry, err error) error {
		visited++
		switch {
		case err != nil:
			return err
		case visited > maxVisited:
			return fmt.Errorf("it has more than %d files; name a folder in it", maxVisited)
		case d.IsDir() && path != real && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case d.Type().IsRegular() && (d.Name() == "environment.yml" || d.Name() == "environment.yaml"):
			out = append(out, fileEntry(filepath.Join(root, strings.TrimPrefix(path, real))))
		}
		return nil
	})
	if err == nil && len(out) == 0 {
		err = errors.New("no folder in it has an environment.yml")
	}
	if err != nil {
		return nil, fmt.Errorf("reading the folder %s: %w", root, err)
	}
	return out, nil
}

// contents reads an environment file. Other files are refused: a list of files that another
// person wrote must not make this program send them.
func contents(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading an environment file: %w", err)
	}
	defer f.Close()
	raw, err := limited(f, maxFile)
	raw = bytes.ReplaceAll(raw, []byte("\r\n"), []byte("\n")) // a lock file is for all systems
	if err == nil && len(raw) == 0 {
		err = errors.New("it is empty")
	}
	if err == nil && !isEnvironment(raw) {
		err = errors.New("it is not an environment file, a pixi.toml or a lock")
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return raw, nil
}

func limited(r io.Reader, limit int64) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(raw)) > limit {
		err = fmt.Errorf("it is larger than %d bytes", limit)
	}
	return raw, err
}

// unique drops repeated entries, and numbers different entries with the same name.
func unique(all []entry) []entry {
	var out []entry
	type key struct {
		name  string
		isSif bool // a lock file has a Singularity image under the name of the image
	}
	named := map[key][]*containerv1.ContainerRequest{}
	for _, e := range all {
		k := key{e.name, isSif(e.request)}
		earlier := named[k]
		if slices.ContainsFunc(earlier, func(r *containerv1.ContainerRequest) bool { return proto.Equal(r, e.request) }) {
			continue
		}
		named[k] = append(earlier, e.request)
		if n := len(earlier); n > 0 {
			e.name = fmt.Sprintf("%s (%d)", e.name, n+1)
		}
		out = append(out, e)
	}
	return out
}
