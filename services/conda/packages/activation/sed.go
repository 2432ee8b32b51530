package activation

import (
	"regexp"
	expr "regexp/syntax"
	"strings"

	"slipway.dev/services/internal/limits"
)

// sed runs one substitution: s,expression,text, or s,expression,text,g.
func (r *run) sed(args []string) error {
	extended := false
	for len(args) > 1 && (args[0] == "-e" || args[0] == "-E" || args[0] == "-r") {
		extended = extended || args[0] != "-e"
		args = args[1:]
	}
	if len(args) != 1 || len(args[0]) < 4 || args[0][0] != 's' || len(args[0]) > limits.ActivationPattern {
		return unsupported("unsupported use of sed")
	}
	parts, ok := sedParts(args[0][1:])
	if !ok || parts[2] != "" && parts[2] != "g" {
		return unsupported("unsupported use of sed")
	}
	source, with := parts[0], strings.ReplaceAll(parts[1], "$", "$$")
	if !extended {
		if source, ok = basic(source); !ok {
			return unsupported("unsupported use of sed")
		}
	}
	all := parts[2] == "g"
	re, err := r.expression(source, expr.POSIX, regexp.CompilePOSIX)
	if err != nil {
		return err
	}
	for n := range 10 {
		with = strings.ReplaceAll(with, `\`+itoa(n), "${"+itoa(n)+"}")
	}
	if strings.ContainsAny(with, `\&`) {
		return unsupported("unsupported use of sed")
	}
	if all && re.begins { // the anchor would match again after each match
		return unsupported("unsupported use of sed")
	}
	text, err := r.input("sed")
	if err != nil {
		return err
	}
	var out strings.Builder
	for line := range strings.Lines(text) {
		if line, err = re.replace(strings.TrimSuffix(line, "\n"), with, all); err != nil {
			return err
		}
		out.WriteString(line + "\n")
		if out.Len() > limits.ActivationValue {
			return unsupported("it prints more than %d bytes", limits.ActivationValue)
		}
	}
	return r.print(out.String())
}

// replace replaces the first match in a line, or all matches.
func (e expression) replace(line, with string, all bool) (string, error) {
	var b strings.Builder
	for {
		m, err := e.find(line)
		if err != nil {
			return "", err
		}
		if m == nil {
			break
		}
		if all && m[0] == m[1] {
			return "", unsupported("it replaces an empty match")
		}
		if b.Len()+len(line)+len(with)+strings.Count(with, "$")*(m[1]-m[0]) > limits.ActivationValue {
			return "", unsupported("it prints more than %d bytes", limits.ActivationValue)
		}
		b.WriteString(line[:m[0]])
		b.Write(e.ExpandString(nil, with, line, m))
		if line = line[m[1]:]; !all {
			break
		}
	}
	return b.String() + line, nil
}

// sedParts splits a substitution at its separator.
func sedParts(text string) (out [3]string, ok bool) {
	separator, at := text[0], 0
	if separator == '\\' || separator == '\n' || separator > 127 {
		return out, false
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == '\\' && i+1 < len(text):
			if i++; text[i] != separator {
				b.WriteByte('\\')
			}
			b.WriteByte(text[i])
		case text[i] == separator:
			if at == 2 {
				return out, false
			}
			out[at] = b.String()
			at++
			b.Reset()
		default:
			b.WriteByte(text[i])
		}
	}
	out[at] = b.String()
	return out, at == 2
}

// basic converts a basic regular expression to an extended one.
func basic(text string) (string, bool) {
	var b strings.Builder
	inSet := false
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case inSet:
			if c == '\\' {
				b.WriteByte('\\')
			}
			inSet = c != ']' || text[i-1] == '[' || text[i-1] == '^' && text[i-2] == '['
		case c == '[':
			inSet = true
		case strings.IndexByte("+?(){}|", c) >= 0:
			b.WriteByte('\\')
		case c == '\\':
			if i++; i == len(text) {
				return "", false
			}
			if c = text[i]; strings.IndexByte("(){}", c) < 0 {
				if strings.IndexByte(".*[]^$/\\", c) < 0 {
					return "", false
				}
				b.WriteByte('\\')
			}
		case c == '*' && b.Len() == 0:
			return "", false
		}
		b.WriteByte(c)
	}
	return b.String(), !inSet
}
