package activation

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/pattern"
	"mvdan.cc/sh/v3/syntax"

	"slipway.dev/services/internal/limits"
)

// substitute returns the output of the commands in $(…).
func (r *run) substitute(c *syntax.CmdSubst) (string, error) {
	if c.TempFile || c.ReplyVar {
		return "", unsupported("unsupported syntax: %T", c)
	}
	if err := r.enter(); err != nil {
		return "", err
	}
	defer r.leave()
	var out strings.Builder
	err := r.inSubshell(func(sub *run) error {
		sub.out = &out
		if len(c.Stmts) == 0 {
			sub.status = 0
		}
		return sub.stmts(c.Stmts)
	})
	r.substituted = true
	return strings.TrimRight(out.String(), "\n"), err
}

// value returns a variable or special parameter.
func (r *run) value(name string) (value string, set bool, err error) {
	switch name {
	case "#":
		return itoa(len(r.args)), true, nil
	case "?":
		return itoa(r.status), true, nil
	case "-":
		return "hB", true, nil // the value in a non-interactive shell
	case "@", "*":
		text, err := r.joined()
		return text, len(r.args) > 0, err
	case "$", "!", "0":
		return "", false, unsupported("it reads $%s", name)
	}
	if n, err := strconv.Atoi(name); err == nil {
		if n < 1 || n > len(r.args) {
			return "", false, nil
		}
		return r.args[n-1], true, nil
	}
	return r.get(name)
}

// joined returns all arguments as one string.
func (r *run) joined() (string, error) {
	size := len(r.args)
	for _, a := range r.args {
		size += len(a)
	}
	if size > limits.ActivationValue {
		return "", unsupported("its arguments are longer than %d bytes", limits.ActivationValue)
	}
	return strings.Join(r.args, " "), r.charge(size)
}

// subject returns the value of the parameter in a parameter expansion.
func (r *run) subject(p *syntax.ParamExp) (value string, set bool, err error) {
	if p.Width || p.Names != 0 {
		return "", false, unsupported("unsupported expansion of %s", p.Param.Value)
	}
	if p.Index != nil {
		w, ok := p.Index.(*syntax.Word)
		if !ok || w.Lit() != "0" {
			return "", false, unsupported("it reads the array %s", p.Param.Value)
		}
	}
	value, set, err = r.value(p.Param.Value)
	if err != nil || !p.Excl {
		return value, set, err
	}
	if !isName(value) {
		return "", false, unsupported("unsupported indirect expansion of %.40q", value)
	}
	return r.get(value)
}

// alternative reports whether an operator selects either the value or a word, such as :-.
func alternative(op syntax.ParExpOperator) bool {
	switch op {
	case syntax.AlternateUnset, syntax.AlternateUnsetOrNull, syntax.DefaultUnset, syntax.DefaultUnsetOrNull, syntax.AssignUnset, syntax.AssignUnsetOrNull:
		return true
	default:
		return false
	}
}

// alternate reports whether the word of an alternative operator is used. Otherwise it
// returns the value to use.
func (r *run) alternate(p *syntax.ParamExp) (word bool, value string, err error) {
	value, set, err := r.subject(p)
	if err != nil {
		return false, "", err
	}
	switch p.Exp.Op {
	case syntax.AlternateUnset:
		return set, "", nil
	case syntax.AlternateUnsetOrNull:
		return value != "", "", nil
	case syntax.DefaultUnset:
		return !set, value, nil
	case syntax.DefaultUnsetOrNull:
		return value == "", value, nil
	default: // an assignment
		if set && (value != "" || p.Exp.Op == syntax.AssignUnset) {
			return false, value, nil
		}
		if value, err = r.text(p.Exp.Word); err == nil {
			err = r.set(p.Param.Value, value)
		}
		return false, value, err
	}
}

// param expands a parameter to one string.
func (r *run) param(p *syntax.ParamExp, quoted bool) (string, error) {
	if p.Exp != nil && alternative(p.Exp.Op) {
		use, value, err := r.alternate(p)
		if err != nil || !use {
			return value, err
		}
		if quoted {
			return r.quotedWord(p.Exp.Word)
		}
		return r.text(p.Exp.Word)
	}
	value, set, err := r.subject(p)
	if err != nil {
		return "", err
	}
	switch {
	case p.Length:
		if p.Param.Value == "@" || p.Param.Value == "*" {
			return itoa(len(r.args)), nil
		}
		return itoa(utf8.RuneCountInString(value)), r.charge(len(value))
	case p.Slice != nil:
		return r.slice(p, value)
	case p.Repl != nil:
		return r.replace(p.Repl, value)
	case p.Exp != nil:
		return r.change(p.Exp, value, set)
	}
	return value, r.charge(len(value))
}

// quotedWord expands the word of "${X:-word}". Quotes and backslashes in it have the same
// meaning as between double quotes.
func (r *run) quotedWord(w *syntax.Word) (string, error) {
	if w == nil {
		return "", nil
	}
	var b strings.Builder
	for _, p := range w.Parts {
		var text string
		var err error
		switch p := p.(type) {
		case *syntax.Lit:
			text = unescaped(p.Value)
		case *syntax.SglQuoted:
			text = "'" + p.Value + "'"
			if p.Dollar {
				err = unsupported("it uses a $'…' string")
			}
		case *syntax.DblQuoted:
			text, err = r.text(&syntax.Word{Parts: []syntax.WordPart{p}})
		case *syntax.ParamExp:
			text, err = r.param(p, true)
		case *syntax.CmdSubst:
			text, err = r.substitute(p)
		default:
			err = unsupported("unsupported syntax in quotes: %T", p)
		}
		if err != nil {
			return "", err
		}
		if b.Len()+len(text) > limits.ActivationValue {
			return "", unsupported("a value is longer than %d bytes", limits.ActivationValue)
		}
		if err := r.charge(len(text)); err != nil {
			return "", err
		}
		b.WriteString(text)
	}
	return b.String(), nil
}

// change runs the operators that remove a part of a value or convert its case.
func (r *run) change(e *syntax.Expansion, value string, set bool) (string, error) {
	switch e.Op {
	case syntax.ErrorUnset, syntax.ErrorUnsetOrNull:
		if !set || value == "" && e.Op == syntax.ErrorUnsetOrNull {
			return "", unsupported("it ends because a variable is not set")
		}
		return value, nil
	case syntax.UpperAll, syntax.LowerAll, syntax.UpperFirst, syntax.LowerFirst:
		return r.letters(e, value)
	default:
		return r.remove(e, value)
	}
}

// remove runs the operators that remove a prefix or suffix.
func (r *run) remove(e *syntax.Expansion, value string) (string, error) {
	pat, err := r.pattern(e.Word)
	if err != nil {
		return "", err
	}
	var re expression
	switch e.Op {
	case syntax.RemSmallPrefix:
		re, err = r.compileIn(pat, pattern.Shortest, "^(?:", ")()")
	case syntax.RemLargePrefix:
		re, err = r.compileIn(pat, 0, "^(?:", ")()")
	case syntax.RemSmallSuffix:
		re, err = r.compileIn(pat, 0, "^(.*)(?:", ")$")
	case syntax.RemLargeSuffix:
		re, err = r.compileIn(pat, 0, "^(.*?)(?:", ")$")
	default:
		return "", unsupported("unsupported operator %s", e.Op)
	}
	if err != nil {
		return "", err
	}
	at, err := re.find(value)
	if err != nil {
		return "", err
	}
	switch {
	case at == nil:
		return value, nil
	case e.Op == syntax.RemSmallPrefix || e.Op == syntax.RemLargePrefix:
		return value[at[1]:], nil
	}
	return value[:at[3]], nil
}

func (r *run) letters(e *syntax.Expansion, value string) (string, error) {
	if e.Word != nil {
		return "", unsupported("it converts the case of selected letters")
	}
	if err := r.charge(len(value)); err != nil {
		return "", err
	}
	for i := range len(value) {
		if value[i] > 127 {
			return "", unsupported("it converts the case of non-ASCII letters")
		}
	}
	switch {
	case e.Op == syntax.UpperAll:
		return strings.ToUpper(value), nil
	case e.Op == syntax.LowerAll:
		return strings.ToLower(value), nil
	case value == "":
		return "", nil
	case e.Op == syntax.UpperFirst:
		return strings.ToUpper(value[:1]) + value[1:], nil
	}
	return strings.ToLower(value[:1]) + value[1:], nil
}

// replace runs ${X/pattern/text}.
func (r *run) replace(p *syntax.Replace, value string) (string, error) {
	pat, err := r.pattern(p.Orig)
	if err != nil {
		return "", err
	}
	with, err := r.text(p.With)
	if err != nil {
		return "", err
	}
	if strings.Contains(with, "&") || pat == "" {
		return "", unsupported("unsupported replacement")
	}
	before, after := "(?:", ")"
	if !p.All && strings.HasPrefix(pat, "#") {
		pat, before = pat[1:], "^(?:"
	} else if !p.All && strings.HasPrefix(pat, "%") {
		pat, after = pat[1:], ")$"
	}
	re, err := r.compileIn(pat, 0, before, after)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for value != "" {
		at, err := re.find(value)
		if err != nil {
			return "", err
		}
		if at == nil {
			break
		}
		if at[0] == at[1] {
			return "", unsupported("it replaces an empty match")
		}
		b.WriteString(value[:at[0]] + with)
		value = value[at[1]:]
		if b.Len() > limits.ActivationValue {
			return "", unsupported("a value is longer than %d bytes", limits.ActivationValue)
		}
		if err := r.charge(len(value) + len(with)); err != nil {
			return "", err
		}
		if !p.All {
			break
		}
	}
	return b.String() + value, nil
}

// slice runs ${X:offset:length}, where both must be decimal numbers.
func (r *run) slice(p *syntax.ParamExp, value string) (string, error) {
	number := func(e syntax.ArithmExpr) (int, error) {
		w, ok := e.(*syntax.Word)
		if !ok {
			return 0, unsupported("it computes")
		}
		text, err := r.text(w)
		if err != nil {
			return 0, err
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return 0, unsupported("it computes")
		}
		return n, nil
	}
	if err := r.charge(4 * len(value)); err != nil {
		return "", err
	}
	runes := []rune(value)
	if p.Param.Value == "@" || p.Param.Value == "*" || p.Slice.Offset == nil {
		return "", unsupported("it takes a slice of its arguments")
	}
	from, err := number(p.Slice.Offset)
	if err != nil {
		return "", err
	}
	runes = runes[min(from, len(runes)):]
	if p.Slice.Length == nil {
		return string(runes), r.charge(len(value))
	}
	n, err := number(p.Slice.Length)
	if err != nil {
		return "", err
	}
	return string(runes[:min(n, len(runes))]), r.charge(len(value))
}

// isName reports whether a string is a valid variable name.
func isName(text string) bool { return syntax.ValidName(text) && len(text) <= limits.ActivationName }
