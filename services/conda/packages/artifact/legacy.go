package artifact

import (
	"bufio"
	"io"
	"strings"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// defaultPlaceholder is the prefix of packages that state none.
const defaultPlaceholder = "/opt/anaconda1anaconda2anaconda3"

// hasPrefix is a line of info/has_prefix.
type hasPrefix struct{ placeholder, mode, path string }

// readFiles parses info/files, which has one path per line.
func readFiles(in io.Reader) (*paths, error) {
	lines, err := readLines(in)
	if err != nil {
		return nil, err
	}
	out := newPaths()
	for _, l := range lines {
		if err := out.add(listed{Path: l}); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// placeholder records the placeholder of a file. A file that is not listed is not
// installed.
func (p *paths) placeholder(h hasPrefix) {
	if at, ok := p.at[h.path]; ok {
		p.list[at].Mode, p.list[at].Placeholder = h.mode, h.placeholder
	}
}

// readHasPrefix parses info/has_prefix. A line is a path, or placeholder, mode and path,
// each quoted if it has a space.
func readHasPrefix(in io.Reader) ([]hasPrefix, error) {
	lines, err := readLines(in)
	if err != nil {
		return nil, err
	}
	var out []hasPrefix
	for _, l := range lines {
		h, err := parseHasPrefix(l)
		if err != nil {
			return nil, err
		}
		out = append(out, h)
	}
	return out, nil
}

func parseHasPrefix(line string) (hasPrefix, error) {
	words, rest := []string(nil), strings.TrimSpace(line)
	for rest != "" && len(words) < 4 {
		var word string
		if rest[0] == '"' || rest[0] == '\'' {
			end := strings.IndexByte(rest[1:], rest[0])
			if end < 0 {
				return hasPrefix{}, invalid("a quote does not end in the line %s", clip(line))
			}
			word, rest = rest[1:1+end], rest[2+end:]
		} else {
			word, rest, _ = strings.Cut(rest, " ")
		}
		words, rest = append(words, word), strings.TrimLeft(rest, " \t")
	}
	switch {
	case len(words) == 1 && words[0] != "":
		return hasPrefix{defaultPlaceholder, "text", words[0]}, nil
	case len(words) == 3 && words[0] != "" && len(words[0]) <= limits.ArtifactPath && !strings.ContainsRune(words[0], 0):
		return hasPrefix{words[0], modeOf(words[1], words[0]), words[2]}, nil
	}
	return hasPrefix{}, invalid("the line %s is malformed", clip(line))
}

// readLines returns the non-empty lines of a list.
func readLines(in io.Reader) ([]string, error) {
	var out []string
	s := bufio.NewScanner(in)
	s.Buffer(nil, 3*limits.ArtifactPath)
	for n := 0; s.Scan(); {
		line := strings.TrimSpace(s.Text())
		if line == "" {
			continue
		}
		if n += len(line); len(out) == limits.ArtifactEntries || n > 2*limits.ArtifactNames {
			return nil, invalid("it is longer than any package needs")
		}
		out = append(out, line)
	}
	if err := s.Err(); err != nil {
		if _, ok := fault.As(err); ok {
			return nil, err
		}
		return nil, fault.Invalid.New("it has a line that is too long", err)
	}
	return out, nil
}
