package conda

import (
	"net/url"
	"strings"

	"slipway.dev/services/internal/fault"
)

// checkChannel wants a channel's name, e.g. "conda-forge", or its URL.
func checkChannel(s string) error {
	if isChannel(s) {
		return nil
	}
	return fault.Invalid.Newf("%q is not a channel: give a name such as conda-forge, or an http(s) URL without a login", clip(s))
}

func isChannel(s string) bool {
	if isWebURL(s) {
		return true
	}
	for part := range strings.SplitSeq(s, "/") {
		if !isPackageName(part) {
			return false
		}
	}
	return len(s) <= maxSpec
}

// isWebURL says whether s is the URL of something on the web: absolute, without a
// login, and of letters that no tool reads as anything else.
func isWebURL(s string) bool {
	if len(s) > 2000 || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("\"'`\\<>{}|^$", r) }) {
		return false
	}
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil && u.Opaque == ""
}
