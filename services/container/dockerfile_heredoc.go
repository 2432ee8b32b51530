package container

import (
	"strings"
	"unicode"

	"slipway.dev/services/internal/fault"
)

// heredoc is a here-document that begins on a line.
type heredoc struct {
	end string
	// tabs says that the end may stand behind tabs.
	tabs bool
}

var errHeredoc = fault.Invalid.Newf(
	"it cannot be told whether << begins a here-document here; write <<NAME with a plain name, or put the << into quotes")

// skipHeredocs passes over the here-documents that begin on a line, and answers
// where the next instruction stands.
func skipHeredocs(in instruction, lines []string, at int, line string) (int, error) {
	name := in.name
	if name == "ONBUILD" {
		sub, _, _ := strings.Cut(strings.Join(strings.Fields(in.rest), " "), " ")
		name = strings.ToUpper(sub)
	}
	if name != "RUN" && name != "COPY" && name != "ADD" || !hasPair(line) {
		return at, nil
	}
	docs, err := heredocs(line)
	if err != nil {
		return at, err
	}
	if len(docs) > 0 && strings.HasPrefix(in.rest, "[") {
		return at, errHeredoc
	}
	for _, doc := range docs {
		for ended := false; !ended; at++ {
			if at == len(lines) {
				return at, fault.Invalid.Newf("the here-document %s has no end", clip(doc.end))
			}
			text := lines[at]
			if doc.tabs {
				text = strings.TrimLeft(text, "\t")
			}
			ended = text == doc.end
		}
	}
	return at, nil
}

// hasPair says whether there are two < in a row, and not more: `<<<` begins no
// here-document.
func hasPair(line string) bool {
	for line != "" {
		_, after, _ := strings.Cut(line, "<")
		rest := strings.TrimLeft(after, "<")
		if len(after)-len(rest) == 1 {
			return true
		}
		line = rest
	}
	return false
}

// heredocs finds the words `<<NAME` of a line, outside of quotes. A number may
// stand before, `-` and blanks between.
func heredocs(line string) ([]heredoc, error) {
	if strings.ContainsFunc(line, func(r rune) bool { return r != ' ' && r != '\t' && (unicode.IsSpace(r) || r < ' ') }) {
		return nil, errHeredoc
	}
	var docs []heredoc
	digits := true // the word so far is digits alone, or empty
	for line != "" {
		if line[0] != '<' {
			n := unitLength(line)
			if n == 0 {
				return nil, errHeredoc
			}
			digits = isBlank(line[0]) || digits && line[0] >= '0' && line[0] <= '9'
			line = line[n:]
			continue
		}
		n := len(line) - len(strings.TrimLeft(line, "<"))
		line = line[n:]
		if n == 2 && digits {
			doc, length, err := heredocWord(line)
			if err != nil {
				return nil, err
			}
			if doc.end != "" {
				docs = append(docs, doc)
			}
			line = line[length:]
		} else if n%2 == 0 {
			line = strings.TrimLeft(line, " \t") // blanks behind << do not end the word
		}
		digits = false
	}
	return docs, nil
}

// unitLength is that of the quoted text, the escaped character, the variable or the
// character that s begins with; 0 where a quote does not end or a variable is not
// a plain one.
func unitLength(s string) int {
	switch {
	case s[0] == '\'' || s[0] == '"':
		return quoted(s)
	case strings.HasPrefix(s, "${"):
		return simpleVariable(s)
	case s[0] == '\\' && len(s) > 1:
		return 2
	}
	return 1
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// heredocWord reads what follows `<<`. Without a name it is no here-document.
func heredocWord(s string) (doc heredoc, length int, err error) {
	bare := strings.TrimLeft(s, " \t")
	rest, dashed := strings.CutPrefix(bare, "-")
	if dashed && len(bare) != len(s) {
		return doc, 0, errHeredoc // "<< -x"
	}
	n := 0
	for n < len(rest) && !isBlank(rest[n]) {
		n++
	}
	doc = heredoc{end: unquote(rest[:n]), tabs: dashed}
	if rest[:n] == "" {
		return heredoc{}, len(s) - len(rest), nil
	}
	if doc.end == "" || strings.Trim(doc.end, wordLetters) != "" {
		return doc, 0, errHeredoc
	}
	return doc, len(s) - len(rest) + n, nil
}

// wordLetters are those that mean themselves wherever they stand.
const wordLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"

// unquote takes off a pair of quotes around the whole.
func unquote(s string) string {
	if n := len(s); n >= 2 && (s[0] == '"' || s[0] == '\'') && s[n-1] == s[0] {
		return s[1 : n-1]
	}
	return s
}

// quoted is the length of the quoted text that s begins with; 0 when it does not
// end, or holds what we do not follow.
func quoted(s string) int {
	if s[0] == '\'' {
		text, _, ok := strings.Cut(s[1:], "'")
		if !ok {
			return 0
		}
		return len(text) + 2
	}
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\':
			i++
		case s[i] == '"':
			return i + 1
		case strings.HasPrefix(s[i:], "${") && simpleVariable(s[i:]) == 0:
			return 0
		}
	}
	return 0
}

// simpleVariable is the length of a `${NAME}` that s begins with, or 0.
func simpleVariable(s string) int {
	n := nameLength(s[2:])
	if n == 0 || !strings.HasPrefix(s[2+n:], "}") {
		return 0
	}
	return n + 3
}
