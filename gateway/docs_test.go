package gateway_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"testing"

	"slipway.dev/gateway"
)

// TestDocumentation follows every link of the documentation that is served.
func TestDocumentation(t *testing.T) {
	t.Parallel()
	h, err := gateway.New(t.Context(), gateway.Conns{})
	if err != nil {
		t.Fatal(err)
	}
	link, id := regexp.MustCompile(`(?:href|src)="([^":]+)"`), regexp.MustCompile(` id="([^"]+)"`)
	pages, anchors := map[string]string{}, map[string]bool{}
	for queue := []string{"/docs/"}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		if _, seen := pages[at]; seen {
			continue
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, at, http.NoBody))
		if w.Code != http.StatusOK {
			t.Errorf("%s: %d", at, w.Code)
		}
		pages[at] = w.Body.String()
		if !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") || !strings.HasPrefix(at, "/docs/") {
			continue
		}
		for _, m := range id.FindAllStringSubmatch(pages[at], -1) {
			anchors[at+"#"+m[1]] = true
		}
		for _, m := range link.FindAllStringSubmatch(pages[at], -1) {
			to, _, _ := strings.Cut(m[1], "#")
			queue = append(queue, resolve(at, to))
		}
	}
	for at, text := range pages {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			to, anchor, hasAnchor := strings.Cut(m[1], "#")
			if target := resolve(at, to) + "#" + anchor; hasAnchor && strings.HasPrefix(at, "/docs/") && !anchors[target] {
				t.Errorf("%s: there is no %s", at, target)
			}
		}
	}
	if len(pages) < 45 {
		t.Errorf("only %d pages were found", len(pages))
	}
	var parts []struct{ At string }
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/docs/search.json", http.NoBody))
	if err := json.Unmarshal(w.Body.Bytes(), &parts); err != nil || len(parts) < 300 {
		t.Errorf("the index has %d parts, %v", len(parts), err)
	}
	for _, p := range parts {
		if at, anchor, ok := strings.Cut(p.At, "#"); ok && !anchors["/docs/"+at+"#"+anchor] {
			t.Errorf("the index names %s, which does not exist", p.At)
		}
	}
	for at, want := range map[string]int{"/docs": http.StatusMovedPermanently, "/docs/nothing": http.StatusNotFound, "/docs/guide": http.StatusMovedPermanently} {
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, at, http.NoBody)); w.Code != want {
			t.Errorf("%s: %d", at, w.Code)
		}
	}
}

// TestUnknownPath checks that browsers get a page for a path that does not exist, and other clients JSON.
func TestUnknownPath(t *testing.T) {
	t.Parallel()
	h, err := gateway.New(t.Context(), gateway.Conns{})
	if err != nil {
		t.Fatal(err)
	}
	for accept, want := range map[string]string{"text/html,application/xhtml+xml,*/*;q=0.8": "text/html", "*/*": "application/json", "": "application/json"} {
		r := httptest.NewRequest(http.MethodGet, "/v1alpha9/nothing", http.NoBody)
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if got := w.Header().Get("Content-Type"); w.Code != http.StatusNotFound || !strings.HasPrefix(got, want) || w.Header().Get("Vary") == "" {
			t.Errorf("%q: %d %s %v", accept, w.Code, got, w.Header())
		}
	}
}

// resolve returns the path of a relative address on a page.
func resolve(page, to string) string {
	if to == "" {
		return page
	}
	dir, _ := path.Split(page)
	out := path.Join(dir, to)
	if strings.HasSuffix(to, "/") && out != "/" {
		out += "/"
	}
	return out
}
