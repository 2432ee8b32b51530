package upstream

import (
	"net/http"
	"net/url"
	"path"
	"testing"
)

// FuzzContent verifies that a mirror gets the requested path below the path of its
// repositories.
func FuzzContent(f *testing.F) {
	for _, s := range []string{"/v2/a/b/manifests/1", "/v2/a/blobs/sha256:ab", "/v2/../blobs/sha256:ab", "/v2/a/manifests/blobs/x?y#z", "/v2/%zz/blobs/x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		name, rest := content(&http.Request{Method: http.MethodGet, URL: &url.URL{Path: s}})
		if name == "" {
			return
		}
		u, err := url.Parse("https://h/v2/hub/" + name + rest)
		if err != nil || "/v2/"+name+rest != s || u.EscapedPath() != "/v2/hub/"+name+rest || path.Clean(u.Path) != u.Path || u.RawQuery != "" || u.Fragment != "" {
			t.Errorf("%q is asked for at %v, %v", s, u, err)
		}
	})
}
