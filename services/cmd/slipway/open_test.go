package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOpen opens the page of a build for each kind of ID, and checks that the address does
// not contain the image name's token.
func TestOpen(t *testing.T) {
	t.Parallel()
	url, _ := answering(t, map[string]string{
		"GET /v1alpha2/container/abc123": `{"requestId":"abc123","buildId":"beef_1"}`,
		"GET /v1alpha2/container/abc124": `{"requestId":"abc124"}`,
	})
	seen := filepath.Join(t.TempDir(), "seen page")
	for _, c := range []struct {
		browser string
		args    []string
		want    string // the opened page; "" for none
		says    string
	}{
		{`printf %s >"$SEEN"`, []string{"open"}, url + "/", "Opening " + url + "/"},
		{`printf %s >"$SEEN"`, []string{"open", "beef_1"}, url + "/view/builds/beef_1", ""},
		{`printf %s >"$SEEN"`, []string{"open", "localhost:9090/wt/abc123/builds:jq--beef"}, url + "/view/builds/beef_1", ""},
		{"no-such-browser", []string{"open", "beef_1"}, "", "--no-browser"},
		{"no-such-browser", []string{"open", "abc124"}, "", "nothing was built"},
	} {
		browser := strings.ReplaceAll(c.browser, "$SEEN", seen)
		got := slipway(t.Context(), map[string]string{"SLIPWAY_SERVER": url, "BROWSER": browser}, c.args...)
		shown, _ := os.ReadFile(seen)
		if string(shown) != c.want || (got.code == 0) != (c.want != "") || !strings.Contains(got.errs, c.says) {
			t.Errorf("%v: %+v, shown is %q, want %q", c.args, got, shown, c.want)
		}
		_ = os.Remove(seen) // may not exist
	}
	got := slipway(t.Context(), map[string]string{"SLIPWAY_SERVER": url}, "open", "-n", "abc123")
	if got.code != 0 || got.out != url+"/view/builds/beef_1\n" {
		t.Errorf("printed is %+v", got)
	}
}
