package conda

import (
	"net/url"
	"strings"

	"slipway.dev/services/internal/fault"
)

// CheckChannel returns fault.Invalid, without a field name, unless s is a channel's name,
// e.g. "conda-forge", or its http(s) URL without a login.
func CheckChannel(s string) error {
	if IsChannel(s) {
		return nil
	}
	return fault.Invalid.Newf("%q is not a channel: give a name such as conda-forge, or an http(s) URL without a login", clip(s))
}

// IsChannel reports whether s has the form of a channel's name or URL.
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

// maxChannel is the maximum length of a channel's name in bytes.
const maxChannel = 500

// IsWebURL reports whether s is an absolute http(s) URL without a login, consisting only of
// characters that all tools interpret in the same way.
func IsWebURL(s string) bool {
	if len(s) > 2000 || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("\"'`\\<>{}|^$", r) }) {
		return false
	}
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil && u.Opaque == ""
}

// isWord reports whether s consists of name characters and does not start with a dash,
// which would make it an option, or a dot, which would make it a path.
func isWord(s string) bool {
	return s != "" && s[0] != '-' && s[0] != '.' && leading(s, isNameLetter) == len(s)
}
