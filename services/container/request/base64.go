package request

import (
	"encoding/base64"
	"strings"
)

// Decode reads base64 as clients write it: in the standard or the URL alphabet, with
// or without padding and line breaks (gateway/contract/container-service.md#base64).
func Decode(s string) ([]byte, error) {
	s = strings.Map(func(r rune) rune {
		switch r {
		case ' ', '\t', '\r', '\n':
			return -1
		case '-':
			return '+'
		case '_':
			return '/'
		}
		return r
	}, s)
	return base64.RawStdEncoding.DecodeString(strings.TrimRight(s, "="))
}

// Decoded is the text behind base64 that has been checked.
func Decoded(s string) string {
	raw, err := Decode(s)
	if err != nil {
		return ""
	}
	return string(raw)
}
