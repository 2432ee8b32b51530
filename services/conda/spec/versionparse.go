package spec

import (
	"strings"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// ParseVersionSpec parses bounds such as `>=1.2,<2`, `1.2.*|1.4.*`, `~=1.4.2`, `!=1.3` and
// `=1.2` (which means 1.2.*); "" and `*` match every version. A version alone means exactly
// that version. It returns fault.Invalid for malformed input and for more than
// limits.CondaConstraints bounds.
func ParseVersionSpec(text string) (VersionSpec, error) {
	if len(text) > limits.CondaSpec {
		return VersionSpec{}, fault.Invalid.Newf("A version specification may have %d characters, not %d", limits.CondaSpec, len(text))
	}
	if strings.TrimSpace(text) == "" {
		return VersionSpec{}, nil
	}
	p := boundParser{text: text, rest: text}
	root, err := p.either(0)
	if err == nil && p.rest != "" {
		err = p.bad("a parenthesis is closed that was not opened")
	}
	if err != nil {
		return VersionSpec{}, err
	}
	return VersionSpec{root}, nil
}

type boundParser struct {
	text, rest string
	bounds     int
}

func (p *boundParser) bad(why string) error {
	return fault.Invalid.Newf("%q is not a version specification: %s", fault.Quote(p.text), why)
}

// either parses alternatives; nil matches every version.
func (p *boundParser) either(depth int) (*bound, error) {
	if depth > limits.CondaParentheses {
		return nil, p.bad("its parentheses are nested too deeply")
	}
	return p.list(oneOf, '|', func() (*bound, error) {
		return p.list(allOf, ',', func() (*bound, error) { return p.operand(depth) })
	})
}

// list parses operands separated by sep, up to a token of an enclosing expression.
func (p *boundParser) list(op operator, sep byte, operand func() (*bound, error)) (*bound, error) {
	var of []*bound
	everything := false
	for {
		b, err := operand()
		if err != nil {
			return nil, err
		}
		everything = everything || b == nil
		if b != nil {
			of = append(of, b)
		}
		p.rest = strings.TrimLeft(p.rest, " ")
		if p.rest == "" || p.rest[0] != sep {
			break
		}
		p.rest = p.rest[1:]
	}
	if everything && op == oneOf {
		return nil, nil
	}
	return group(op, of), nil
}

// group combines several bounds; nil, for none, matches every version.
func group(op operator, of []*bound) *bound {
	switch len(of) {
	case 0:
		return nil
	case 1:
		return of[0]
	}
	return &bound{op: op, of: of}
}

// operand parses a bound, or alternatives in parentheses.
func (p *boundParser) operand(depth int) (*bound, error) {
	p.rest = strings.TrimLeft(p.rest, " ")
	if after, ok := strings.CutPrefix(p.rest, "("); ok {
		p.rest = after
		b, err := p.either(depth + 1)
		if err != nil {
			return nil, err
		}
		if p.rest, ok = strings.CutPrefix(p.rest, ")"); !ok {
			return nil, p.bad("a parenthesis is not closed")
		}
		return b, nil
	}
	if p.bounds++; p.bounds > limits.CondaConstraints {
		return nil, p.bad("it has too many bounds")
	}
	n := strings.IndexAny(p.rest, ",|()")
	if strings.HasPrefix(p.rest, "^") {
		n = strings.IndexByte(p.rest, '$') + 1
	}
	if n < 0 {
		n = len(p.rest)
	}
	one := strings.TrimSpace(p.rest[:n])
	p.rest = p.rest[n:]
	return p.bound(one)
}

// bound parses an operator and a version; nil matches every version.
func (p *boundParser) bound(s string) (*bound, error) {
	op, rest := cutOperator(s)
	version := strings.TrimLeft(rest, " ")
	if strings.HasPrefix(s, "^") {
		return p.pattern(s)
	}
	prefix := strings.TrimRight(version, "*")
	starred := prefix != version
	for starred && strings.HasSuffix(prefix, ".") {
		prefix = strings.TrimRight(strings.TrimSuffix(prefix, "."), "*")
	}
	switch {
	case version == "":
		return nil, p.bad("a version is missing")
	case prefix == "":
		return nil, nil
	case strings.Contains(prefix, "*") && op == equal && rest == s && isVersionGlob(version):
		return p.pattern(version)
	}
	v, err := ParseVersion(prefix)
	if err != nil {
		return nil, err
	}
	b := &bound{op: op, version: v}
	if starred {
		b.op = op.starred()
	}
	if b.op == compatible {
		b.prefix = v
		b.prefix.release = v.release[:max(1, len(v.release)-1)]
	}
	return b, nil
}

// isVersionGlob reports whether a string is a valid version apart from its stars.
func isVersionGlob(s string) bool {
	return leading(strings.ToLower(s), func(c byte) bool {
		return isDigit(c) || isLower(c) || isSeparator(c) || c == '*' || c == '+' || c == '!'
	}) == len(s)
}

func (p *boundParser) pattern(s string) (*bound, error) {
	pattern, err := ParsePattern(s)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(s, "^") && pattern.re == nil {
		return nil, p.bad("a regular expression ends with $")
	}
	return &bound{op: like, pattern: pattern}, nil
}

// cutOperator splits off the operator; the default is equal.
func cutOperator(s string) (operator, string) {
	for _, o := range [...]struct {
		sign string
		op   operator
	}{
		{"==", equal},
		{"!=", unequal},
		{"<=", lessOrEqual},
		{">=", greaterOrEqual},
		{"~=", compatible},
		{"<", less},
		{">", greater},
		{"=", startsWith},
	} {
		if rest, ok := strings.CutPrefix(s, o.sign); ok {
			return o.op, rest
		}
	}
	return equal, s
}

// starred returns the meaning of an operator before a version that ends with a star. Order
// comparisons with a star make little sense, but channels contain them.
func (op operator) starred() operator {
	switch op {
	case equal:
		return startsWith
	case unequal:
		return startsNotWith
	case greater:
		return greaterOrEqual
	default:
		return op
	}
}
