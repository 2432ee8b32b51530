// Package snakemake implements `slipway snakemake`, which requests an image for the Conda
// environment of each rule of a Snakemake workflow, and writes its name into the rule as its
// container: it reads the Snakefiles (snakefile.go, workflow.go), requests the images like
// `slipway batch`, and edits the lines of the containers (edit.go).
package snakemake

import (
	"regexp"
	"strings"
	"sync"
)

// A snakefile is a Snakefile that was read.
type snakefile struct {
	// path is relative to the working directory.
	path string
	// lines have their line endings.
	lines    []string
	rules    []*rule
	includes []directive
	// unread are the numbers of the first lines of rules that may have an environment but are
	// written in a way that is not read, from 0.
	unread []int
	// unfinished reports whether the file ends in a string or in brackets, so that it is not
	// valid and must not be changed.
	unfinished bool
}

// A rule is a rule or a checkpoint with a Conda environment.
type rule struct {
	name string
	// line is the number of the first line, from 0, and indent the indentation of the body.
	line   int
	indent string
	conda  directive
	// container is nil if the rule has none.
	container *directive
}

// A directive is a keyword of a rule with its value, or an include.
type directive struct {
	// from and to are the numbers of its first line and of the line after its last one, from 0.
	from, to int
	// text is the value if it is a string literal.
	text string
	// isText is false for other expressions, and for strings with escapes or placeholders.
	isText bool
}

// A statement is a logical line of Python: one that may extend over several lines, because of
// brackets, strings with three quotes, or backslashes.
type statement struct {
	from, to int // as in directive
	indent   string
	text     string // without indentation and comments
}

var (
	ruleHead = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?:rule|checkpoint)\b[ \t]*(\w*)[ \t]*:[ \t]*$`)
	})
	useHead = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^use[ \t]+rule[ \t]+([\w*][\w*, \t]*?)(?:[ \t]+from[ \t]+\w+)?(?:[ \t]+as[ \t]+([\w*]+))?[ \t]+with[ \t]*:[ \t]*$`)
	})
	otherHead = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?:(?:rule|checkpoint)\b[^=(]*?:|use[ \t]+rule\b.*\bwith\b)(?s:.*)\bconda[ \t]*:`)
	})
	directiveHead = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(conda|container|singularity)[ \t]*:`)
	})
	includeHead = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^include[ \t]*:`)
	})
)

// parse reads a Snakefile. It understands as much of the language as is needed to find rules with
// environments: what it does not understand is left alone.
func parse(path, text string) *snakefile {
	f := &snakefile{path: path, lines: strings.SplitAfter(text, "\n")}
	var all []statement
	all, f.unfinished = statements(f.lines)
	for i := 0; i < len(all); i++ {
		s := all[i]
		if includeHead().MatchString(s.text) {
			f.includes = append(f.includes, value(all, i))
			continue
		}
		name, ok := ruleName(s.text)
		if !ok {
			if otherHead().MatchString(s.text) {
				f.unread = append(f.unread, s.from)
			}
			continue
		}
		if r := (&rule{name: name, line: s.from}); r.read(s.indent, all[i+1:]) {
			f.rules = append(f.rules, r)
		}
	}
	return f
}

// read reads the directives of a rule, whose head has an indentation. It reports whether the rule has
// an environment.
func (r *rule) read(head string, body []statement) (hasConda bool) {
	for j, d := range body {
		if !deeper(d.indent, head) {
			break
		}
		if j == 0 {
			r.indent = d.indent
		}
		m := directiveHead().FindStringSubmatch(d.text)
		if m == nil || d.indent != r.indent {
			continue
		}
		v := value(body, j)
		if m[1] == "conda" {
			r.conda, hasConda = v, true
		} else {
			r.container = &v
		}
	}
	return hasConda
}

func ruleName(text string) (string, bool) {
	if m := ruleHead().FindStringSubmatch(text); m != nil {
		return m[1], true
	}
	if m := useHead().FindStringSubmatch(text); m != nil {
		if m[2] != "" {
			return m[2], true
		}
		return m[1], true
	}
	return "", false
}

// deeper reports whether an indentation is below another one.
func deeper(indent, than string) bool {
	return len(indent) > len(than) && strings.HasPrefix(indent, than)
}

// value returns the directive of a statement: its value follows the colon, on the same line or on
// lines with a deeper indentation.
func value(all []statement, i int) directive {
	head := all[i]
	_, text, _ := strings.Cut(head.text, ":")
	out := directive{from: head.from, to: head.to}
	for _, s := range all[i+1:] {
		if !deeper(s.indent, head.indent) {
			break
		}
		text, out.to = text+" "+s.text, s.to
	}
	out.text, out.isText = literal(text)
	return out
}

// plain matches a string literal without escapes or placeholders.
var plain = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[rRuU]?(?:"([^"\\{}\n]+)"|'([^'\\{}\n]+)'),?$`)
})

// literal returns the text of an expression that is one string literal.
func literal(expression string) (string, bool) {
	m := plain().FindStringSubmatch(strings.TrimSpace(expression))
	if m == nil {
		return "", false
	}
	return m[1] + m[2], true
}

// statements divides lines into statements. Empty lines and comments belong to none. unfinished
// reports whether the last one does not end.
func statements(lines []string) (out []statement, unfinished bool) {
	var in scanner
	for i, line := range lines {
		continued := in.continues()
		code := in.scan(line)
		switch {
		case continued:
			last := &out[len(out)-1]
			last.text, last.to = last.text+"\n"+code, i+1
		case strings.TrimSpace(code) != "":
			trimmed := strings.TrimLeft(code, " \t\f")
			out = append(out, statement{from: i, to: i + 1, indent: code[:len(code)-len(trimmed)], text: strings.TrimSpace(trimmed)})
		}
	}
	return out, in.continues()
}

// A scanner knows whether the next line continues a statement.
type scanner struct {
	// quote is the delimiter of the string that the line before did not end; "" for none.
	quote string
	// depth is the number of open brackets.
	depth int
	// joined reports whether the line before ended with a backslash.
	joined bool
}

func (s *scanner) continues() bool { return s.quote != "" || s.depth > 0 || s.joined }

// scan reads a line, and returns it without its comment and its line ending.
func (s *scanner) scan(line string) string {
	line = strings.TrimRight(line, "\r\n")
	s.joined = false
	for i := 0; i < len(line); i++ {
		rest := line[i:]
		switch {
		case s.quote != "":
			switch {
			case rest[0] == '\\':
				i++
			case strings.HasPrefix(rest, s.quote):
				i += len(s.quote) - 1
				s.quote = ""
			}
		case rest[0] == '#':
			return line[:i]
		case rest[0] == '"' || rest[0] == '\'':
			s.quote = rest[:1]
			if three := strings.Repeat(s.quote, 3); strings.HasPrefix(rest, three) {
				s.quote, i = three, i+2
			}
		case strings.ContainsRune("([{", rune(rest[0])):
			s.depth++
		case strings.ContainsRune(")]}", rune(rest[0])):
			s.depth = max(s.depth-1, 0)
		}
	}
	if strings.HasSuffix(line, `\`) {
		s.joined = true
	} else if len(s.quote) == 1 { // a string with one quote ends with its line
		s.quote = ""
	}
	return line
}
