package main

import (
	"regexp"
	"strings"

	"google.golang.org/protobuf/compiler/protogen"
)

// prose returns a comment as paragraphs, with JSON names.
func prose(c protogen.Comments) string {
	var paragraphs []string
	for p := range strings.SplitSeq(string(c), "\n\n") {
		paragraphs = append(paragraphs, strings.Join(strings.Fields(p), " "))
	}
	text := strings.TrimSpace(strings.Join(paragraphs, "\n\n"))
	text = responses.ReplaceAllString(text, "${1}Result")
	return snake.ReplaceAllStringFunc(text, camel)
}

var (
	snake = regexp.MustCompile(`\b[a-z]+(_[a-z0-9]+)+\b`)
	// Response messages are renamed, since generated clients use names that end in Response.
	responses = regexp.MustCompile(`\b([A-Z][A-Za-z]+)Response\b`)
	internal  = regexp.MustCompile(`^[A-Za-z]+ (is |are )?`)
	sentence  = regexp.MustCompile(`^.*?[a-z0-9)][.:]( |$)`)
)

func camel(name string) string {
	parts := strings.Split(name, "_")
	for i, p := range parts[1:] {
		parts[i+1] = capital(p)
	}
	return strings.Join(parts, "")
}

func capital(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// description returns a message's comment without its name.
func description(m *protogen.Message) string {
	return capital(internal.ReplaceAllString(prose(m.Comments.Leading), ""))
}

// splitComment returns a call's comment: its first sentence, and the rest.
func splitComment(c protogen.Comments, name string) (summary, rest string) {
	text := capital(strings.TrimPrefix(prose(c), name+" "))
	summary = sentence.FindString(text)
	if summary == "" {
		summary = text
	}
	rest = strings.TrimSpace(text[len(summary):])
	return strings.TrimRight(summary, ".: "), capital(rest)
}
