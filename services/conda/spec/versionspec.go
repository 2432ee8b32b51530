package spec

import "strings"

// A VersionSpec is a condition on versions (CEP 33, CEP 29): bounds joined with `,` (and)
// and `|` (or). It is immutable; the zero value matches every version.
type VersionSpec struct {
	root *bound
}

// A bound is one node: a list of bounds of which one or all must match, or an operator and
// a version.
type bound struct {
	op      operator
	version Version
	// pattern is set if op is like, prefix if it is compatible.
	pattern Pattern
	prefix  Version
	of      []*bound
}

type operator uint8

const (
	oneOf operator = iota
	allOf
	equal
	unequal
	less
	lessOrEqual
	greater
	greaterOrEqual
	startsWith
	startsNotWith
	compatible
	like
)

// Any reports whether every version matches.
func (s VersionSpec) Any() bool { return s.root == nil }

// Match reports whether v matches.
func (s VersionSpec) Match(v Version) bool { return s.root == nil || s.root.match(v) }

// Exact returns the version if the specification matches exactly one.
func (s VersionSpec) Exact() (Version, bool) {
	if s.root == nil || s.root.op != equal {
		return Version{}, false
	}
	return s.root.version, true
}

// Without returns each specification that results from removing one of the bounds that must
// all match, e.g. >=1.2 and <2 for >=1.2,<2, and every version for a single bound. It
// returns none for a specification that matches every version.
func (s VersionSpec) Without() []VersionSpec {
	switch {
	case s.root == nil:
		return nil
	case s.root.op != allOf:
		return []VersionSpec{{}}
	}
	of := s.root.of
	out := make([]VersionSpec, len(of))
	for i := range of {
		rest := append(append([]*bound(nil), of[:i]...), of[i+1:]...)
		out[i] = VersionSpec{group(allOf, rest)}
	}
	return out
}

func (b *bound) match(v Version) bool {
	switch b.op {
	case oneOf:
		for _, o := range b.of {
			if o.match(v) {
				return true
			}
		}
		return false
	case allOf:
		for _, o := range b.of {
			if !o.match(v) {
				return false
			}
		}
		return true
	case startsWith:
		return v.StartsWith(b.version)
	case startsNotWith:
		return !v.StartsWith(b.version)
	case compatible:
		return v.Compare(b.version) >= 0 && v.StartsWith(b.prefix)
	case like:
		return b.pattern.Match(v.text)
	default:
		return b.op.holds(v.Compare(b.version))
	}
}

// holds reports whether the result of a comparison satisfies the operator.
func (op operator) holds(order int) bool {
	switch op {
	case equal:
		return order == 0
	case unequal:
		return order != 0
	case less:
		return order < 0
	case lessOrEqual:
		return order <= 0
	case greater:
		return order > 0
	default:
		return order >= 0
	}
}

// String returns the specification in its shortest form, which ParseVersionSpec parses; ""
// matches every version.
func (s VersionSpec) String() string {
	if s.root == nil {
		return ""
	}
	var out strings.Builder
	s.root.write(&out, oneOf)
	return out.String()
}

func (b *bound) write(out *strings.Builder, within operator) {
	if b.op > allOf {
		b.writeOne(out)
		return
	}
	sep := byte('|')
	if b.op == allOf {
		sep = ','
	}
	nested := b.op == oneOf && within == allOf
	if nested {
		out.WriteByte('(')
	}
	for i, o := range b.of {
		if i > 0 {
			out.WriteByte(sep)
		}
		o.write(out, b.op)
	}
	if nested {
		out.WriteByte(')')
	}
}

func (b *bound) writeOne(out *strings.Builder) {
	switch b.op {
	case like:
		out.WriteString(b.pattern.text)
	case startsWith:
		out.WriteString(b.version.text + ".*")
	case startsNotWith:
		out.WriteString("!=" + b.version.text + ".*")
	default:
		out.WriteString(b.op.sign() + b.version.text)
	}
}

// sign returns how an operator is written before a version.
func (op operator) sign() string {
	switch op {
	case unequal:
		return "!="
	case less:
		return "<"
	case lessOrEqual:
		return "<="
	case greater:
		return ">"
	case greaterOrEqual:
		return ">="
	case compatible:
		return "~="
	default:
		return ""
	}
}
