package activation

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"slipway.dev/services/internal/limits"
)

// A piece is a part of an expanded word. A quoted piece is not split, and its characters are
// literal in patterns.
type piece struct {
	text   string
	quoted bool
	// split is set for the result of an unquoted expansion.
	split bool
	// next is set if the piece begins a new field, as in "$@".
	next bool
}

// pieces expands a word.
func (r *run) pieces(w *syntax.Word) ([]piece, error) {
	if w == nil {
		return nil, nil
	}
	e := expander{run: r}
	for i, p := range w.Parts {
		if err := e.part(p, i == 0); err != nil {
			return nil, err
		}
	}
	return e.out, nil
}

// An expander collects the pieces of a word. It charges for each piece before it stores it.
type expander struct {
	*run
	out   []piece
	bytes int
}

func (e *expander) add(all ...piece) error {
	for _, p := range all {
		e.bytes += len(p.text)
		if e.bytes > limits.ActivationValue || len(e.out) >= limits.ActivationPieces {
			return unsupported("a word has more than %d bytes or %d parts", limits.ActivationValue, limits.ActivationPieces)
		}
		if err := e.charge(len(p.text)); err != nil {
			return err
		}
		e.out = append(e.out, p)
	}
	return nil
}

func (e *expander) part(p syntax.WordPart, first bool) error {
	if err := e.charge(0); err != nil {
		return err
	}
	switch p := p.(type) {
	case *syntax.Lit:
		return e.literal(p.Value, first)
	case *syntax.SglQuoted:
		if p.Dollar && strings.Contains(p.Value, `\`) {
			return unsupported("it uses a $'…' string")
		}
		return e.add(piece{text: p.Value, quoted: true})
	case *syntax.DblQuoted:
		return e.double(p)
	case *syntax.ParamExp:
		return e.unquoted(p)
	case *syntax.CmdSubst:
		text, err := e.substitute(p)
		if err != nil {
			return err
		}
		return e.add(piece{text: text, split: true})
	}
	return unsupported("unsupported syntax in a word: %T", p)
}

// literal expands the backslashes of an unquoted string.
func (e *expander) literal(text string, first bool) error {
	if first && strings.HasPrefix(text, "~") || strings.Contains(text, ":~") || strings.Contains(text, "=~") {
		return unsupported("it expands ~ to a home directory")
	}
	if strings.Contains(text, "{") && (strings.Contains(text, ",") || strings.Contains(text, "..")) {
		return unsupported("it uses a brace expansion")
	}
	for text != "" {
		before, after, found := strings.Cut(text, `\`)
		if before != "" {
			if err := e.add(piece{text: before}); err != nil {
				return err
			}
		}
		if !found {
			break
		}
		if after == "" {
			return e.add(piece{text: `\`, quoted: true})
		}
		if after[0] != '\n' {
			if err := e.add(piece{text: after[:1], quoted: true}); err != nil {
				return err
			}
		}
		text = after[1:]
	}
	return nil
}

// double expands a double-quoted string.
func (e *expander) double(q *syntax.DblQuoted) error {
	if q.Dollar {
		return unsupported("it uses a $\"…\" string")
	}
	if len(q.Parts) == 1 && len(e.args) == 0 {
		if p, is := q.Parts[0].(*syntax.ParamExp); is && isAllArguments(p) {
			return nil
		}
	}
	if err := e.add(piece{quoted: true}); err != nil {
		return err
	}
	for _, p := range q.Parts {
		if a, is := p.(*syntax.ParamExp); is && isAllArguments(a) {
			if err := e.arguments(piece{quoted: true}); err != nil {
				return err
			}
			continue
		}
		text, err := e.inner(p)
		if err != nil {
			return err
		}
		if err := e.add(piece{text: text, quoted: true}); err != nil {
			return err
		}
	}
	return nil
}

// arguments adds each argument as a field.
func (e *expander) arguments(p piece) error {
	for i, a := range e.args {
		p.text, p.next = a, i > 0
		if err := e.add(p); err != nil {
			return err
		}
	}
	return e.charge(0)
}

// isAllArguments reports whether an expansion is "$@".
func isAllArguments(p *syntax.ParamExp) bool {
	return p.Param.Value == "@" && p.Exp == nil && !p.Length && p.Slice == nil && p.Repl == nil
}

// inner expands a part of a double-quoted string.
func (r *run) inner(p syntax.WordPart) (string, error) {
	switch p := p.(type) {
	case *syntax.Lit:
		return unescaped(p.Value), nil
	case *syntax.ParamExp:
		return r.param(p, true)
	case *syntax.CmdSubst:
		return r.substitute(p)
	}
	return "", unsupported("unsupported syntax in quotes: %T", p)
}

// unescaped removes the backslashes that are escapes in double quotes.
func unescaped(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) && strings.IndexByte("$`\"\\\n", text[i+1]) >= 0 {
			if i++; text[i] == '\n' {
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// unquoted expands a parameter outside of quotes.
func (e *expander) unquoted(p *syntax.ParamExp) error {
	if name := p.Param.Value; (name == "@" || name == "*") && p.Exp == nil && !p.Length && p.Slice == nil && p.Repl == nil {
		return e.arguments(piece{split: true})
	}
	if p.Exp != nil && alternative(p.Exp.Op) { // a quoted alternative is not split
		use, value, err := e.alternate(p)
		if err != nil {
			return err
		}
		if !use {
			return e.add(piece{text: value, split: true})
		}
		all, err := e.pieces(p.Exp.Word)
		if err != nil {
			return err
		}
		return e.add(all...)
	}
	text, err := e.param(p, false)
	if err != nil {
		return err
	}
	return e.add(piece{text: text, split: true})
}

// text expands a word to one string, as in an assignment.
func (r *run) text(w *syntax.Word) (string, error) {
	all, err := r.pieces(w)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, p := range all {
		if p.next {
			b.WriteByte(' ')
		}
		b.WriteString(p.text)
		if b.Len() > limits.ActivationValue {
			return "", unsupported("a value is longer than %d bytes", limits.ActivationValue)
		}
	}
	return b.String(), r.charge(b.Len())
}

// fields expands words to arguments.
func (r *run) fields(words []*syntax.Word) ([]string, error) {
	var out []string
	for _, w := range words {
		all, err := r.pieces(w)
		if err != nil {
			return nil, err
		}
		ifs, _, err := r.get("IFS")
		if err != nil {
			return nil, err
		}
		fields, err := r.splitPieces(all, ifs)
		if err != nil {
			return nil, err
		}
		for _, f := range fields {
			names, err := r.glob(f)
			if err != nil {
				return nil, err
			}
			if len(out)+len(names) > limits.ActivationVariables {
				return nil, errArguments()
			}
			out = append(out, names...)
		}
	}
	return out, nil
}

// splitPieces splits the results of unquoted expansions.
func (r *run) splitPieces(all []piece, ifs string) ([][]piece, error) {
	s := splitter{ifs: ifs}
	for _, p := range all {
		if err := r.charge(len(p.text)); err != nil {
			return nil, err
		}
		if len(s.out) > limits.ActivationVariables {
			return nil, errArguments()
		}
		if p.next {
			s.end()
		}
		if !p.split {
			s.field, s.has = append(s.field, p), true
			continue
		}
		s.split(p.text)
	}
	s.end()
	if len(s.out) > limits.ActivationVariables {
		return nil, errArguments()
	}
	return s.out, nil
}

func errArguments() error {
	return unsupported("a command has more than %d arguments", limits.ActivationVariables)
}

type splitter struct {
	ifs   string
	out   [][]piece
	field []piece
	has   bool // whether the field exists; it may be empty
}

func (s *splitter) end() {
	if s.has {
		s.out = append(s.out, s.field)
	}
	s.field, s.has = nil, false
}

func (s *splitter) split(text string) {
	start := 0
	flush := func(to int) {
		if to > start {
			s.field, s.has = append(s.field, piece{text: text[start:to]}), true
		}
	}
	for i := 0; i < len(text) && len(s.out) <= limits.ActivationVariables; i++ {
		if strings.IndexByte(s.ifs, text[i]) < 0 {
			continue
		}
		flush(i)
		if strings.IndexByte(" \t\n", text[i]) < 0 {
			s.has = true // such a separator ends even an empty field
		}
		s.end()
		for start = i + 1; start < len(text) && strings.IndexByte(" \t\n", text[start]) >= 0 && strings.IndexByte(s.ifs, text[start]) >= 0; start++ {
			i++
		}
		if start < len(text) && strings.IndexByte(" \t\n", text[start-1]) >= 0 && strings.IndexByte(s.ifs, text[start]) >= 0 { // " : " is one separator
			i, start = i+1, start+1
		}
	}
	flush(len(text))
}
