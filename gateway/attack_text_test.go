package gateway

import (
	"net/url"
	"testing"
)

// TestInvalidStrings checks that strings which protobuf or a database cannot hold are
// rejected before they become a message or a parameter.
func TestInvalidStrings(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]bool{
		"/a/b?c=d": true, "/a/%C3%A9?c=%C3%A9&d=+": true, "/a?c=é": true, "/a?%zz": true,
		"/a/%ff": false, "/a/%00": false, "/a?b=%ff": false, "/a?b=%00": false, "/a?%00=b": false, "/a?b=1&b=%C3": false, "/a/%C3%28": false, "/a?b=%C3%28": false,
	} {
		u := &url.URL{}
		if parsed, err := url.Parse(raw); err == nil {
			u = parsed
		} else {
			t.Fatal(err)
		}
		if got := isText(u); got != want {
			t.Errorf("%s: %v, want %v", raw, got, want)
		}
	}
	if isText(&url.URL{Path: "/", RawQuery: "a=\xff"}) || isText(&url.URL{Path: "/", RawQuery: "a=\x00"}) {
		t.Error("bytes as they are were taken")
	}
}

func FuzzIsText(f *testing.F) {
	f.Add("/a", "b=%ff")
	f.Fuzz(func(t *testing.T, path, query string) {
		u := &url.URL{Path: path, RawQuery: query}
		if isText(u) && (!isPlain(path) || !areTexts(u.Query())) {
			t.Errorf("%q %q was taken", path, query)
		}
	})
}
