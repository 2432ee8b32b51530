package registry

import (
	"strings"
	"unicode/utf8"
)

// The kinds of requests, also as metrics label them.
const (
	kindManifest  = "manifest"
	kindBlob      = "blob"
	kindTags      = "tags"
	kindReferrers = "referrers"
)

// prefix is where the names that requests answer live.
const prefix = "/v2/wt/"

// path is a path of the pull API, taken apart.
type path struct {
	// token and name are from /v2/wt/<token>/<name>/…
	token, name string
	kind        string
	// ref is the tag or digest at the end; "" for tags.
	ref string
}

// parsePath reads from the tail, since a name may itself hold a component that is
// called "manifests" or "blobs".
func parsePath(p string) (path, bool) {
	rest, ok := strings.CutPrefix(p, prefix)
	if !ok || !utf8.ValidString(p) || strings.Contains(p, "\x00") { // no message could carry it
		return path{}, false
	}
	token, rest, ok := strings.Cut(rest, "/")
	if !ok {
		return path{}, false
	}
	rest, ref, ok := cutLast(rest)
	name, kind, ok2 := cutLast(rest)
	if !ok || !ok2 || token == "" || name == "" || ref == "" {
		return path{}, false
	}
	out := path{token: token, name: name, ref: ref}
	switch kind {
	case "manifests":
		out.kind = kindManifest
	case "blobs":
		out.kind = kindBlob
	case "referrers":
		out.kind = kindReferrers
	case "tags":
		out.kind, out.ref = kindTags, ""
		ok = ref == "list"
	default:
		ok = false
	}
	return out, ok
}

func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, '/')
	if i < 0 {
		return "", s, false
	}
	return s[:i], s[i+1:], true
}
