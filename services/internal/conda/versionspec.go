package conda

import "strings"

// VersionSpec is what a version must be (CEP 33, CEP 29): bounds with `,` (and) and `|`
// (or) between. It is immutable; the zero value is every version.
type VersionSpec struct {
	root *bound
}

// bound is one node: a list of which one or all must hold, or an operator and a
// version.
type bound struct {
	op      operator
	version Version
	// pattern is set where op is like, prefix where it is compatible.
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

// Any says whether every version fits.
func (s VersionSpec) Any() bool { return s.root == nil }

// Match says whether v fits.
func (s VersionSpec) Match(v Version) bool { return s.root == nil || s.root.match(v) }

// Exact is the one version that fits, where the specification names one.
func (s VersionSpec) Exact() (Version, bool) {
	if s.root == nil || s.root.op != equal {
		return Version{}, false
	}
	return s.root.version, true
}

// Without gives each specification that has one bound less of those that must all
// hold, e.g. >=1.2 and <2 for >=1.2,<2, and every version for a single bound. None for
// every version.
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

// holds judges the outcome of a comparison.
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

// String is the specification in its shortest form, which ParseVersionSpec reads; "" for
// every version.
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

// sign is how an operator is written before a version.
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
