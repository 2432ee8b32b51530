package registry

import (
	"strings"
	"unicode/utf8"

	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/oci"
)

// Kinds of requests, which are also metric labels.
const (
	kindManifest  = "manifest"
	kindBlob      = "blob"
	kindTags      = "tags"
	kindReferrers = "referrers"
)

// prefix is the path below which images are served, by their issued names.
const prefix = "/v2/"

// A path is a parsed path of the pull API.
type path struct {
	// token and name are from /v2/wt/<token>/<name>/… or /v2/c/<id>/<name>/…
	token, name string
	kind        string
	// ref is the tag or digest at the end, and "" for tags.
	ref string
}

// parsePath parses from the end, since a name may contain components such as "manifests" or
// "blobs".
func parsePath(p string) (path, bool) {
	rest, isPull := strings.CutPrefix(p, prefix)
	issued, ok := oci.ParseIssued(rest)
	if !isPull || !ok || !utf8.ValidString(p) || strings.Contains(p, "\x00") { // Protobuf cannot carry such a string
		return path{}, false
	}
	rest, ref, ok := cutLast(issued.Name)
	name, kind, ok2 := cutLast(rest)
	if !ok || !ok2 || name == "" || ref == "" {
		return path{}, false
	}
	out := path{token: issued.Token, name: name, ref: ref}
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

// parseDigest is digest.Parse. For SHA-256 it avoids the regular expression, which took a microsecond
// of each pull by digest.
func parseDigest(s string) (digest.Digest, error) {
	if encoded, ok := strings.CutPrefix(s, "sha256:"); ok && len(encoded) == 64 && strings.Trim(encoded, "0123456789abcdef") == "" {
		return digest.Digest(s), nil
	}
	return digest.Parse(s)
}

func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, '/')
	if i < 0 {
		return "", s, false
	}
	return s[:i], s[i+1:], true
}
