package conda

import (
	"net/url"
	"strings"

	"slipway.dev/services/internal/fault"
)

// CheckChannel wants a channel's name, e.g. "conda-forge", or its http(s) URL
// without a login. fault.Invalid otherwise, without the field.
func CheckChannel(s string) error {
	if IsChannel(s) {
		return nil
	}
	return fault.Invalid.Newf("%q is not a channel: give a name such as conda-forge, or an http(s) URL without a login", clip(s))
}

// IsChannel says whether s has the form of a channel's name or URL.
func IsChannel(s string) bool {
	if IsWebURL(s) {
		return true
	}
	for part := range strings.SplitSeq(s, "/") {
		if !isWord(part) {
			return false
		}
	}
	return len(s) <= maxChannel
}

// maxChannel is how long a channel's name may be, in characters.
const maxChannel = 500

// IsWebURL says whether s is the URL of something on the web: absolute, without a
// login, and of letters that no tool reads as anything else.
func IsWebURL(s string) bool {
	if len(s) > 2000 || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("\"'`\\<>{}|^$", r) }) {
		return false
	}
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil && u.Opaque == ""
}

// isWord wants a letter, digit or _ in front: a dash would make an option of it, a
// dot a path.
func isWord(s string) bool {
	return s != "" && s[0] != '-' && s[0] != '.' && leading(s, isNameLetter) == len(s)
}
