package gateway

import (
	"net/url"
	"strings"
	"unicode/utf8"
)

const noText = "The address must be UTF-8, without the character NUL"

// isText reports whether path and query are strings that protobuf and databases can hold.
func isText(u *url.URL) bool {
	if !isPlain(u.Path) {
		return false
	}
	if !strings.ContainsAny(u.RawQuery, "%\x00") && utf8.ValidString(u.RawQuery) {
		return true
	}
	return areTexts(u.Query())
}

// areTexts reports whether all names and values of a query or form are such strings.
func areTexts(form url.Values) bool {
	for name, values := range form {
		for _, v := range append(values, name) {
			if !isPlain(v) {
				return false
			}
		}
	}
	return true
}

func isPlain(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }
