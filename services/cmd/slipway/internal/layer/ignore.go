package layer

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// Ignored is a parsed .dockerignore file, which excludes files from a build context. See
// docs.docker.com, "Build context", ".dockerignore files". A nil Ignored excludes nothing.
type Ignored struct{ rules []ignoreRule }

// ignoreRule is a line of the file. The last matching line decides.
type ignoreRule struct {
	pattern *regexp.Regexp
	keep    bool // the line begins with "!"
}

// ReadIgnored reads the ignore file of a Dockerfile, or else the one in the context. It
// returns nil if neither exists.
func ReadIgnored(dockerfile, context string) (*Ignored, error) {
	for _, name := range []string{dockerfile + ".dockerignore", filepath.Join(context, ".dockerignore")} {
		f, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		defer f.Close()
		list, err := parseIgnored(f)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		return list, nil
	}
	return nil, nil //nolint:nilnil // nothing is ignored
}

func parseIgnored(r io.Reader) (*Ignored, error) {
	list := &Ignored{}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if n == 1 {
			line = strings.TrimPrefix(line, "\uFEFF")
		}
		if strings.HasPrefix(line, "#") {
			continue
		}
		line, keep := strings.CutPrefix(strings.TrimSpace(line), "!")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if line = strings.TrimPrefix(path.Clean(line), "/"); line == "" || line == "." {
			continue
		}
		pattern, err := ignorePattern(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		list.rules = append(list.rules, ignoreRule{pattern, keep})
	}
	return list, lines.Err()
}

// ignorePattern converts a pattern to a regular expression: "*" and "?" match within a
// name, and "**" matches any number of directories.
func ignorePattern(line string) (*regexp.Regexp, error) {
	var b strings.Builder
	b.WriteString("^")
	for rest := line; rest != ""; {
		switch c := rest[0]; {
		case strings.HasPrefix(rest, "**"):
			rest = strings.TrimPrefix(rest[2:], "/")
			if rest == "" {
				b.WriteString(".*")
			} else {
				b.WriteString("(.*/)?")
			}
			continue
		case c == '*':
			b.WriteString("[^/]*")
		case c == '?':
			b.WriteString("[^/]")
		case c == '[' || c == ']' || c >= 0x80:
			b.WriteByte(c)
		case c == '\\' && len(rest) > 1:
			rest = rest[1:]
			b.WriteString(regexp.QuoteMeta(rest[:1]))
		default:
			b.WriteString(regexp.QuoteMeta(rest[:1]))
		}
		rest = rest[1:]
	}
	b.WriteString("$")
	return regexp.Compile(b.String())
}

// has reports whether a path below the context, with "/" as separator, is excluded, by
// itself or with a parent directory.
func (l *Ignored) has(name string) bool {
	if l == nil {
		return false
	}
	out := false
	for _, r := range l.rules {
		if r.keep != out {
			continue // no effect
		}
		for p := name; p != "."; p = path.Dir(p) {
			if r.pattern.MatchString(p) {
				out = !r.keep
				break
			}
		}
	}
	return out
}

// exceptions reports whether an excluded directory may contain included files.
func (l *Ignored) exceptions() bool {
	for _, r := range l.rules {
		if r.keep {
			return true
		}
	}
	return false
}
