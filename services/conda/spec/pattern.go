package spec

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"strings"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// A Pattern matches strings: one exact string, a glob with * for any text, or a regular
// expression between ^ and $ (CEP 29). The zero value matches every string.
type Pattern struct {
	text string
	re   *regexp.Regexp
}

// ParsePattern parses a pattern; "" and "*" match every string. It returns fault.Invalid
// for malformed patterns.
func ParsePattern(text string) (Pattern, error) {
	if len(text) > limits.CondaPattern {
		return Pattern{}, fault.Invalid.Newf("A pattern may have %d characters, not %d", limits.CondaPattern, len(text))
	}
	if strings.Trim(text, "*") == "" {
		return Pattern{}, nil
	}
	p := Pattern{text: text}
	if strings.HasPrefix(text, "^") && strings.HasSuffix(text, "$") {
		parsed, err := syntax.Parse(text, syntax.Perl)
		if err == nil && steps(parsed) > limits.CondaPatternSteps {
			err = errLong
		}
		if err == nil {
			p.re, err = regexp.Compile(text)
		}
		if err != nil {
			return Pattern{}, fault.Invalid.New("The regular expression "+fault.Quote(text)+" cannot be read", err)
		}
	}
	return p, nil
}

// errLong is returned for a short regular expression that expands to a long one.
var errLong = errors.New("it repeats too much")

// steps estimates the length of the program that a regular expression compiles to, in which
// repetitions are expanded.
func steps(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)/2
	for _, sub := range re.Sub {
		n += steps(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= 1 + max(re.Min, re.Max)
	}
	return n
}

// String returns the pattern as written; "" matches every string.
func (p Pattern) String() string { return p.text }

// Any reports whether every string matches.
func (p Pattern) Any() bool { return p.text == "" }

// Match reports whether s matches.
func (p Pattern) Match(s string) bool {
	switch {
	case p.text == "":
		return true
	case p.re != nil:
		return p.re.MatchString(s)
	}
	return glob(p.text, s)
}

// glob matches a pattern with * for any text. It only backtracks to the last star, so it
// takes at most len(pattern)*len(s) steps.
func glob(pattern, s string) bool {
	star, resume := -1, 0
	p, i := 0, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, resume = p, i
			p++
		case p < len(pattern) && pattern[p] == s[i]:
			p++
			i++
		case star >= 0:
			resume++
			p, i = star+1, resume
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
