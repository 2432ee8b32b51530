package spec

import (
	"net/url"
	"slices"
	"strings"

	"slipway.dev/services/internal/fault"
)

// CheckChannel returns fault.Invalid, without a field name, unless s is a channel's name,
// e.g. "conda-forge", or its http(s) or oci URL without a login.
func CheckChannel(s string) error {
	if IsChannel(s) {
		return nil
	}
	return fault.Invalid.Newf("%q is not a channel: give a name such as conda-forge, or an http(s) or oci URL without a login", fault.Quote(s))
}

// IsChannel reports whether s has the form of a channel's name or URL.
func IsChannel(s string) bool {
	if IsChannelURL(s) {
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
func IsWebURL(s string) bool { return isURL(s, "http", "https") }

// IsChannelURL reports whether s has the form of the URL of a channel or of a file in a channel: a URL
// that IsWebURL accepts or, for a channel in a registry, oci://HOST/PATH. The latter may only have
// characters of the names of registries, repositories and package files.
func IsChannelURL(s string) bool {
	if rest, ok := strings.CutPrefix(s, "oci://"); ok {
		_, path, _ := strings.Cut(rest, "/")
		return path != "" && leading(rest, func(c byte) bool { return isNameLetter(c) || strings.IndexByte("/:+!=", c) >= 0 }) == len(rest) && isURL(s, "oci")
	}
	return IsWebURL(s)
}

func isURL(s string, schemes ...string) bool {
	if len(s) > 2000 || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("\"'`\\<>{}|^$", r) }) {
		return false
	}
	u, err := url.Parse(s)
	return err == nil && slices.Contains(schemes, u.Scheme) && u.Hostname() != "" && u.User == nil && u.Opaque == ""
}

// isWord reports whether s consists of name characters and does not start with a dash,
// which would make it an option, or a dot, which would make it a path.
func isWord(s string) bool {
	return s != "" && s[0] != '-' && s[0] != '.' && leading(s, isNameLetter) == len(s)
}
