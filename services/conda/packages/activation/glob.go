package activation

import (
	"path"
	"regexp"
	expr "regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/pattern"
	"mvdan.cc/sh/v3/syntax"

	"slipway.dev/services/internal/limits"
)

// isPattern reports whether an unquoted word is a file name pattern.
func isPattern(text string) bool {
	_, set, _ := strings.Cut(text, "[")
	return strings.ContainsAny(text, "*?") || strings.Contains(set, "]")
}

// glob expands a file name pattern to the matching files of the environment.
func (r *run) glob(f []piece) ([]string, error) {
	var plain, pat strings.Builder
	is := false
	for _, p := range f {
		plain.WriteString(p.text)
		if p.quoted {
			pat.WriteString(pattern.QuoteMeta(p.text, 0))
			continue
		}
		is = is || isPattern(p.text)
		pat.WriteString(p.text)
	}
	if err := r.charge(plain.Len()); err != nil || !is {
		return []string{plain.String()}, err
	}
	folder, last := path.Split(plain.String())
	if isPattern(folder) {
		return nil, unsupported("it uses a file name pattern for a folder")
	}
	at, ok := r.within(strings.TrimSuffix(folder, "/"))
	if !ok {
		return nil, unsupported("it uses a file name pattern outside of the environment")
	}
	re, err := r.compile(pat.String()[strings.LastIndexByte(pat.String(), '/')+1:])
	if err != nil {
		return nil, err
	}
	var out []string
	for _, name := range r.env.Files(at) {
		if err := r.charge(len(name)); err != nil {
			return nil, err
		}
		match, err := re.find(name)
		if err != nil {
			return nil, err
		}
		if match != nil && (name[0] != '.' || last[0] == '.') {
			out = append(out, folder+name)
		}
	}
	slices.Sort(out)
	if len(out) == 0 {
		return []string{plain.String()}, nil
	}
	return out, nil
}

// within returns a path relative to the prefix, and whether it is below the prefix.
func (r *run) within(name string) (string, bool) {
	if !strings.HasPrefix(name, "/") {
		if r.folder == "" || name == "" {
			return "", false
		}
		name = r.folder + "/" + name
	}
	at, ok := strings.CutPrefix(path.Clean(name)+"/", r.env.Prefix+"/")
	return strings.TrimSuffix(at, "/"), ok
}

// compile compiles a shell pattern to an expression that matches whole strings.
func (r *run) compile(pat string) (expression, error) { return r.compileIn(pat, 0, "^(?:", ")$") }

func (r *run) compileIn(pat string, mode pattern.Mode, before, after string) (expression, error) {
	if len(pat) > limits.ActivationPattern {
		return expression{}, unsupported("a pattern is longer than %d bytes", limits.ActivationPattern)
	}
	text, err := pattern.Regexp(pat, mode)
	if err != nil {
		return expression{}, unsupported("%.200v", err)
	}
	return r.expression("(?s)"+before+text+after, expr.Perl, regexp.Compile)
}

// An expression is a compiled pattern, whose searches are charged to the budget.
type expression struct {
	*regexp.Regexp
	run *run
	// size is the approximate number of its instructions.
	size int
	// begins reports whether it has an anchor for the beginning of the text.
	begins bool
}

// expression compiles a regular expression. It returns an error if its program would exceed
// limits.ActivationProgram.
func (r *run) expression(text string, flags expr.Flags, compile func(string) (*regexp.Regexp, error)) (expression, error) {
	if err := r.charge(64 + 8*len(text)); err != nil {
		return expression{}, err
	}
	tree, err := expr.Parse(text, flags)
	if err != nil {
		return expression{}, unsupported("%.200v", err)
	}
	size := instructions(tree)
	if size > limits.ActivationProgram {
		return expression{}, unsupported("a pattern needs more than %d instructions", limits.ActivationProgram)
	}
	if err := r.charge(64 * size); err != nil {
		return expression{}, err
	}
	re, err := compile(text)
	if err != nil {
		return expression{}, unsupported("%.200v", err)
	}
	return expression{re, r, size, begins(tree)}, nil
}

// instructions returns an upper bound of the number of instructions of an expression. It is
// capped just above limits.ActivationProgram.
func instructions(re *expr.Regexp) int {
	n := 2 + len(re.Rune)
	for _, sub := range re.Sub {
		n += instructions(sub)
	}
	if re.Op == expr.OpRepeat {
		n *= 1 + max(re.Min, re.Max)
	}
	return min(n, limits.ActivationProgram+1)
}

func begins(re *expr.Regexp) bool {
	return re.Op == expr.OpBeginText || re.Op == expr.OpBeginLine || slices.ContainsFunc(re.Sub, begins)
}

// find returns the indexes of the first match and its groups, or nil if there is no match.
func (e expression) find(text string) ([]int, error) {
	if err := e.run.charge((1 + len(text)) * e.size); err != nil {
		return nil, err
	}
	return e.FindStringSubmatchIndex(text), nil
}

// pattern expands a word to a shell pattern.
func (r *run) pattern(w *syntax.Word) (string, error) {
	all, err := r.pieces(w)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, p := range all {
		if p.quoted {
			b.WriteString(pattern.QuoteMeta(p.text, 0))
		} else {
			b.WriteString(p.text)
		}
	}
	return b.String(), r.charge(b.Len())
}

// matches reports whether a string matches the pattern in a word.
func (r *run) matches(text string, w *syntax.Word) (bool, error) {
	pat, err := r.pattern(w)
	if err != nil {
		return false, err
	}
	re, err := r.compile(pat)
	if err != nil {
		return false, err
	}
	at, err := re.find(text)
	return at != nil, err
}

func itoa(n int) string { return strconv.Itoa(n) }
