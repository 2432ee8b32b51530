package container

import (
	"strings"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// cutFlags takes the words that begin with "--" from the front of a line. Quotes
// and backslashes are taken off them, as engines do.
func cutFlags(line string) (flags []string, rest string, err error) {
	for {
		line = strings.TrimLeft(line, blanks)
		if !strings.HasPrefix(line, "--") {
			return flags, line, nil
		}
		word, n, err := flagWord(line)
		if err != nil {
			return nil, "", err
		}
		line = line[n:]
		if word == "--" {
			return flags, line, nil
		}
		flags = append(flags, word)
	}
}

// flagWord reads a word to its end and answers its length in the line.
func flagWord(line string) (word string, n int, err error) {
	var out strings.Builder
	var quote byte
	for ; n < len(line); n++ {
		c := line[n]
		switch {
		case c >= 0x80:
			return "", 0, fault.Invalid.Newf("a flag must be ASCII")
		case c == '\\' && n+1 < len(line):
			n++
			out.WriteByte(line[n])
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case quote == 0 && strings.IndexByte(blanks, c) >= 0:
			return out.String(), n, nil
		default:
			out.WriteByte(c)
		}
	}
	if quote != 0 {
		return "", 0, fault.Invalid.Newf("a flag has a quote that is not closed")
	}
	return out.String(), n, nil
}

// variables are the ARGs before the first FROM.
type variables struct {
	escape byte
	values map[string]string
	// unsure are names whose value only the engine knows.
	unsure map[string]bool
	// size is the length of all values together.
	size int
}

// errUnsure is a word that we cannot read as the engine will.
var errUnsure = fault.Invalid.Newf("write the image name without escapes and special forms of variables")

// errLong is a word of variables that name each other, or something like it.
var errLong = fault.Invalid.Newf("its variables expand to more than %d characters", limits.DockerfileGrowth)

// set reads the arguments of an ARG instruction.
func (v *variables) set(rest string) {
	words, sure := splitWords(rest, v.escape)
	for _, w := range words {
		name, value, given := strings.Cut(w, "=")
		if !sure {
			v.unsure[name] = true
			continue
		}
		if !given || v.unsure[name] {
			continue
		}
		text, err := v.expand(value)
		if v.size += len(text); v.size > limits.Dockerfile {
			text, err = "", errLong
		}
		v.values[name], v.unsure[name] = text, err != nil
	}
}

// splitWords splits at blanks outside of quotes, and keeps the quotes. Not sure
// where there are escapes or quotes that stay open: then the names that are set may
// be others, and every piece is answered.
func splitWords(s string, escape byte) (words []string, sure bool) {
	if strings.IndexByte(s, escape) >= 0 {
		return strings.Fields(s), false
	}
	var quote rune
	words = strings.FieldsFunc(s, func(r rune) bool {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '"' || r == '\''):
			quote = r
		}
		return quote == 0 && strings.ContainsRune(blanks, r)
	})
	if quote != 0 {
		return strings.Fields(s), false
	}
	return words, true
}

// expand takes quotes off a word and puts in the variables. errUnsure for what
// the engine might read otherwise.
func (v variables) expand(word string) (string, error) {
	if strings.IndexByte(word, v.escape) >= 0 {
		return "", errUnsure
	}
	var out strings.Builder
	for word != "" {
		if out.Len() > limits.DockerfileGrowth {
			return "", errLong // before the next one is made of it
		}
		switch word[0] {
		case '\'':
			text, rest, ok := strings.Cut(word[1:], "'")
			if !ok {
				return "", errUnsure
			}
			out.WriteString(text)
			word = rest
		case '"':
			text, rest, ok := strings.Cut(word[1:], `"`)
			if !ok {
				return "", errUnsure
			}
			inner, err := v.expand(strings.ReplaceAll(text, "'", "\x00"))
			if err != nil {
				return "", err
			}
			out.WriteString(strings.ReplaceAll(inner, "\x00", "'"))
			word = rest
		case '$':
			value, rest, err := v.variable(word[1:])
			if err != nil {
				return "", err
			}
			out.WriteString(value)
			word = rest
		default:
			out.WriteByte(word[0])
			word = word[1:]
		}
	}
	if out.Len() > limits.DockerfileGrowth {
		return "", errLong
	}
	return out.String(), nil
}

// variable reads what follows a dollar sign: NAME, {NAME}, or {NAME:-word} with
// one of the operators `:-`, `-`, `:+`, `+`.
func (v variables) variable(s string) (value, rest string, err error) {
	braced := strings.HasPrefix(s, "{")
	if braced {
		s = s[1:]
	}
	n := nameLength(s)
	if n == 0 {
		return "", "", errUnsure
	}
	name, s := s[:n], s[n:]
	if v.unsure[name] || isEngines(name) {
		return "", "", fault.Invalid.Newf("the value of %s is not known here; write the image name out", name)
	}
	value, set := v.values[name]
	if !braced {
		return value, s, nil
	}
	form, rest, ok := strings.Cut(s, "}")
	if !ok {
		return "", "", errUnsure
	}
	value, err = v.choose(form, value, set)
	return value, rest, err
}

// choose applies the operator of a form such as ":-word".
func (v variables) choose(form, value string, set bool) (string, error) {
	if form == "" {
		return value, nil
	}
	op := strings.TrimPrefix(form, ":")
	if strings.HasPrefix(form, ":") {
		set = set && value != ""
	}
	if op == "" || (op[0] != '-' && op[0] != '+') || strings.ContainsAny(op, "{\"'\x00") {
		return "", errUnsure
	}
	word, err := v.expand(op[1:])
	switch {
	case err != nil:
		return "", err
	case set == (op[0] == '+'):
		return word, nil
	case set:
		return value, nil
	}
	return "", nil
}

// nameLength is how much of s is the name of a variable.
func nameLength(s string) int {
	n := 0
	for n < len(s) && (s[n] == '_' || s[n]|0x20 >= 'a' && s[n]|0x20 <= 'z' || n > 0 && s[n] >= '0' && s[n] <= '9') {
		n++
	}
	return n
}

// isEngines says whether the engine gives a variable its value: about machines, or
// from settings of the worker.
func isEngines(name string) bool {
	switch strings.ToUpper(name) {
	case "BUILDPLATFORM", "BUILDOS", "BUILDOSVERSION", "BUILDARCH", "BUILDVARIANT",
		"TARGETPLATFORM", "TARGETOSVERSION", "TARGETVARIANT", "TARGETSTAGE", "SOURCE_DATE_EPOCH",
		"HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY", "ALL_PROXY":
		return true
	}
	return strings.HasPrefix(name, "BUILDKIT_")
}
