// Package prose finds phrases that this project does not use: words that only its early
// authors used, or that leave open what a sentence is about. Its test checks the whole
// repository: messages, documents, pages, scripts and manifests must not have any, and the
// comments of a Go package at most one in 500 lines.
package prose

import (
	"go/scanner"
	"go/token"
	"regexp"
	"strconv"
	"strings"
)

// A Phrase is a pattern with the plain words to use instead.
type Phrase struct {
	Pattern *regexp.Regexp
	Instead string
}

// Phrases returns the phrases that the budget counts.
func Phrases() []Phrase {
	var out []Phrase
	for _, p := range []struct{ pattern, instead string }{
		{`rooms?`, "service"},
		{`whoever`, "the caller, any client"},
		{`somebody|someone else's`, "a user, another client"},
		{`nobody(?: else)?`, "no user, no client"},
		{`those who`, "users that, clients that"},
		{`(?:says?|tells?) (?:whether|what|how|which|who)`, "reports whether, returns, describes"},
		{`hold(?:s)? [\w.]+ against|held against`, "compare with, verify against"},
		{`(?:is|are|was|were|been) asked for`, "is requested"},
		{`gave out|gives? out|given out`, "issued"},
		{`stands? for|stood for`, "represents, resolves to"},
		{`goes on|go on|went on|going on`, "continues"},
		{`under way`, "running"},
		{`goes away|is gone|are gone`, "disconnects, is deleted, has expired"},
		{`by hand`, "manually"},
		{`for good`, "permanently"},
		{`(?:is|are|was|were|can be) had`, "is fetched"},
		{`an instant`, "a time"},
		{`taken over`, "compromised, adopted, copied"},
		{`no good`, "invalid"},
		{`patience`, "timeout"},
		{`anew`, "again"},
		{`at most so|so many`, "a limit"},
		{`believe[sd]?`, "trust"},
		{`(?:has|have|had) (?:it|them|one|this) made`, "build, create"},
		{`one's own`, "the caller's own"},
		{`who is signed in`, "the signed-in user"},
		{`what is (?:there|wanted|kept|given)`, "the existing, requested, stored, passed …"},
		{`put together`, "assembled"},
		{`knows? of`, "has, lists"},
		{`takes? away|taken away`, "revoke, remove"},
	} {
		out = append(out, Phrase{regexp.MustCompile(`(?i)\b(?:` + p.pattern + `)\b`), p.instead})
	}
	return out
}

// Text is the prose of a Go file.
type Text struct {
	// Comments holds the text of comments, without directives such as //nolint. Lines is
	// their number of lines.
	Comments string
	Lines    int
	// Messages holds the string literals with at least three words.
	Messages string
}

// Read returns the text of a Go file.
func Read(source []byte) Text {
	files := token.NewFileSet()
	file := files.AddFile("", files.Base(), len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, scanner.ScanComments)
	var comments, messages strings.Builder
	var t Text
	for {
		_, kind, literal := s.Scan()
		switch kind {
		case token.EOF:
			t.Comments, t.Messages = comments.String(), messages.String()
			return t
		case token.COMMENT:
			if strings.HasPrefix(literal, "//") && !strings.HasPrefix(literal, "// ") {
				continue
			}
			t.Lines += 1 + strings.Count(literal, "\n")
			comments.WriteString(literal + "\n")
		case token.STRING:
			if text, err := strconv.Unquote(literal); err == nil && len(strings.Fields(text)) >= 3 {
				messages.WriteString(text + "\n")
			}
		default: // code
		}
	}
}
