package gateway_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"slipway.dev/gateway"
)

// alone returns the site of a gateway without other services.
func alone(t *testing.T) http.Handler {
	t.Helper()
	h, err := gateway.New(t.Context(), gateway.Conns{})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func open(t *testing.T, h http.Handler, at string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, at, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// address matches what a document loads.
var address = regexp.MustCompile(`(?:src|href)="([^"]*/web/[^"]+)"`)

// TestWebFirstView bounds the size of what a browser loads to show the page, and checks its
// caching.
func TestWebFirstView(t *testing.T) {
	t.Parallel()
	h := alone(t)
	page := open(t, h, "/", "Accept-Encoding", "gzip")
	style := open(t, h, path.Join("/", path.Dir(address.FindStringSubmatch(string(unpacked(t, page)))[1]), "style.css"), "Accept-Encoding", "gzip")
	total, seen := page.Body.Len()+style.Body.Len(), map[string]bool{} // the scripts load the rest of the style
	for _, m := range address.FindAllStringSubmatch(string(unpacked(t, page)), -1) {
		at := path.Join("/", m[1])
		if seen[at] {
			continue
		}
		seen[at] = true
		f := open(t, h, at, "Accept-Encoding", "gzip")
		if f.Code != http.StatusOK || f.Header().Get("Content-Encoding") != "gzip" || f.Header().Get("Cache-Control") != "public, max-age=31536000, immutable" {
			t.Errorf("%s: %d %v", at, f.Code, f.Header())
		}
		if whole := open(t, h, at); !bytes.Equal(whole.Body.Bytes(), unpacked(t, f)) || strings.HasSuffix(at, "js") && whole.Header().Get("Content-Type") != "text/javascript; charset=utf-8" {
			t.Errorf("%s is another thing without compression, or is served as %s", at, whole.Header().Get("Content-Type"))
		}
		if again := open(t, h, at, "If-None-Match", f.Header().Get("Etag")); again.Code != http.StatusNotModified {
			t.Errorf("%s again: %d", at, again.Code)
		}
		total += f.Body.Len()
	}
	if total > 60_000 || len(seen) != 2 { // the pictures
		t.Errorf("the first view is %d bytes in %d files", total, len(seen)+1)
	}
	t.Logf("%d bytes in %d files", total, len(seen)+1)
}

func unpacked(t *testing.T, w *httptest.ResponseRecorder) []byte {
	t.Helper()
	from, err := gzip.NewReader(bytes.NewReader(w.Body.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(from)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestWebLoadsEveryModule checks that static imports exist and are preloaded by the documents, and that dynamic imports
// exist and are not.
func TestWebLoadsEveryModule(t *testing.T) {
	t.Parallel()
	h := alone(t)
	known := map[string]bool{}
	for at, script := range map[string]string{"/c": "catalog", "/c/0123456789abcdef": "catalogimage", "/view/builds/0123456789abcdef_1": "build",
		"/view/mirrors/0123456789abcdef_1": "build", "/view/scans/sc-0123456789abcdef_1": "scan", "/view/containers/abcdefghijklmnopqrstuvwx23": "container",
		"/view/inspect": "inspect", "/view/status": "status", "/view/runs": "account", "/login": "account", "/user/ada/watch/4kTcGUm9Zv": "account", "/view/containers": "account"} {
		announced := map[string]bool{}
		for _, m := range address.FindAllStringSubmatch(open(t, h, at).Body.String(), -1) {
			announced[path.Join("/", path.Dir(at+"x"), m[1])] = true
		}
		if !slices.ContainsFunc(slices.Collect(maps.Keys(announced)), func(file string) bool {
			return regexp.MustCompile(`^` + script + `(-\w+)?\.js$`).MatchString(path.Base(file))
		}) {
			t.Errorf("%s does not announce %s", at, script)
		}
		for file := range announced {
			known[file] = true
			for _, m := range imports.FindAllStringSubmatch(open(t, h, file).Body.String(), -1) {
				if !announced[path.Join(path.Dir(file), m[1])] {
					t.Errorf("%s imports %s, which the document of %s does not announce", file, m[1], at)
				}
			}
		}
	}
	later := 0
	for queue := slices.Collect(maps.Keys(known)); len(queue) > 0; queue = queue[1:] {
		module := open(t, h, queue[0])
		if module.Code != http.StatusOK {
			t.Errorf("%s is %d", queue[0], module.Code)
		}
		for _, m := range append(imports.FindAllStringSubmatch(module.Body.String(), -1), loaded.FindAllStringSubmatch(module.Body.String(), -1)...) {
			if to := path.Join(path.Dir(queue[0]), m[1]); !known[to] {
				known[to], queue = true, append(queue, to)
				later++
			}
		}
	}
	if later < 15 {
		t.Errorf("%d modules are loaded later", later)
	}
}

// imports and loaded match the static and the dynamic imports of a minified module.
var (
	imports = regexp.MustCompile(`(?:from|import)"(\./[\w.-]+)"`)
	loaded  = regexp.MustCompile(`import\("(\./[\w./-]+)"\)`)
)

// TestWebViewsOfOneVersion checks that a page that is open while the server is replaced does not load a view of
// another version, which would start that version's scripts in the same document.
func TestWebViewsOfOneVersion(t *testing.T) {
	t.Parallel()
	h := alone(t)
	for _, name := range []string{"build-AAAAAAAA.js", "chunk-AAAAAAAA.js", "build.js"} {
		if w := open(t, h, "/web/0123456789abcdef/"+name); w.Code != http.StatusNotFound {
			t.Errorf("%s is %d", name, w.Code)
		}
	}
}

// TestWebFormNeedsNoFile checks that the form of the first view, its style and its options are in the document.
func TestWebFormNeedsNoFile(t *testing.T) {
	t.Parallel()
	got := open(t, alone(t), "/")
	text := got.Body.String()
	for _, want := range []string{`<form class="order"`, `name="p"`, `name="format"`, `name="platform"`, `id="get"`, "<noscript>"} {
		if !strings.Contains(text, want) {
			t.Errorf("the document has no %s", want)
		}
	}
	if strings.Contains(text, `<link rel="stylesheet"`) || strings.Contains(text, "@") && regexp.MustCompile(`@[a-z]+@`).MatchString(text) {
		t.Error("the document waits for a style, or has a placeholder")
	}
	style := regexp.MustCompile(`(?s)<style>(.*)</style>`).FindStringSubmatch(text)
	if style == nil {
		t.Fatal("the document has no style")
	}
	sum := sha256.Sum256([]byte(style[1]))
	if policy := got.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "style-src 'self' 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"';") ||
		!strings.Contains(policy, "form-action 'self';") || strings.Contains(policy, "unsafe") {
		t.Errorf("the policy is %q", policy)
	}
}

// TestWebScriptIsInTheDocument checks that the document of the first view contains its script, that the policy allows it, and
// that other scripts get the exports of the same instance.
func TestWebScriptIsInTheDocument(t *testing.T) {
	t.Parallel()
	h := alone(t)
	got := open(t, h, "/")
	scripts := regexp.MustCompile(`(?s)<script type="(\w+)">(.*?)</script>`).FindAllStringSubmatch(got.Body.String(), -1)
	if len(scripts) != 2 || scripts[0][1] != "importmap" || scripts[1][1] != "module" || strings.Contains(got.Body.String(), "<script type=\"module\" src") {
		t.Fatalf("the document has the scripts %.300q", scripts)
	}
	for _, s := range scripts {
		sum := sha256.Sum256([]byte(s[2]))
		if want := "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"; !strings.Contains(got.Header().Get("Content-Security-Policy"), want) {
			t.Errorf("the policy %q does not allow the %s", got.Header().Get("Content-Security-Policy"), s[1])
		}
	}
	var replaced struct{ Imports map[string]string }
	if err := json.Unmarshal([]byte(scripts[0][2]), &replaced); err != nil || len(replaced.Imports) != 1 {
		t.Fatalf("%v: %s", err, scripts[0][2])
	}
	for from, to := range replaced.Imports {
		original, instead := open(t, h, path.Join("/", from)), open(t, h, path.Join("/", to))
		names := func(of string, pattern string) (list []string) {
			for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(of, -1) {
				list = append(list, m[1])
			}
			slices.Sort(list)
			return list
		}
		_, end, _ := strings.Cut(original.Body.String(), "export{")
		want, have := names(end, ` as (\w+|\$)`), names(instead.Body.String(), `[{,](\w+|\$)`)
		if instead.Code != http.StatusOK || len(want) < 20 || !slices.Equal(want, have) {
			t.Errorf("%s has %q, and %s %q", from, want, to, have)
		}
	}
	for _, m := range loaded.FindAllStringSubmatch(scripts[1][2], -1) {
		if code := open(t, h, path.Join("/", m[1])).Code; code != http.StatusOK {
			t.Errorf("%s, which is loaded later, is %d", m[1], code)
		}
	}
	if n := len(loaded.FindAllString(scripts[1][2], -1)); n < 8 || strings.Contains(scripts[1][2], "import.meta") {
		t.Errorf("%d scripts are loaded later, or an address is relative to a file", n)
	}
}

// TestWebIsStrict checks the Content-Security-Policy of the page.
func TestWebIsStrict(t *testing.T) {
	t.Parallel()
	h := alone(t)
	for _, at := range []string{"/view/builds/0123456789abcdef_1", "/view/inspect", "/view/nothing", "/c", "/c/0123456789abcdef", "/docs/"} {
		got := open(t, h, at)
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
				"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
			"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer", "Cache-Control": "no-cache",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "Set-Cookie": "",
		} {
			if have := got.Header().Get(name); have != want {
				t.Errorf("%s: %s is %q, want %q", at, name, have, want)
			}
		}
	}
}

// TestWebLeavesOtherPaths checks that the page serves its own paths, in any spelling, and
// leaves all others to the API.
func TestWebLeavesOtherPaths(t *testing.T) {
	t.Parallel()
	h := alone(t)
	asset := path.Join("/", address.FindStringSubmatch(open(t, h, "/").Body.String())[1])
	for _, c := range []struct {
		at, kind string
		status   int
	}{
		{"/", "text/html; charset=utf-8", 200},
		{"/?p=samtools", "text/html; charset=utf-8", 200},
		{"/view/builds/0123456789abcdef_12", "text/html; charset=utf-8", 200},
		{"/view/scans/sc-0123456789abcdef_1", "text/html; charset=utf-8", 200},
		{"/view/scans/0123456789abcdef_1", "text/html; charset=utf-8", 404},
		{"/view/inspect?image=a", "text/html; charset=utf-8", 200},
		{"/view/containers/abcdefghijklmnopqrstuvwx23", "text/html; charset=utf-8", 200},
		{"/view/containers/" + strings.Repeat("0f", 32), "text/html; charset=utf-8", 200},
		{"/view/containers", "text/html; charset=utf-8", 200},
		{"/view/containers/abc", "text/html; charset=utf-8", 404},
		{"/c", "text/html; charset=utf-8", 200},
		{"/c?q=samtools&sort=pulls", "text/html; charset=utf-8", 200},
		{"/c/", "text/html; charset=utf-8", 200},
		{"/c/0123456789abcdef", "text/html; charset=utf-8", 200},
		{"/c/0123456789abcdef/samtools_bwa", "text/html; charset=utf-8", 200},
		{"/c/0123456789abcdef/samtools:1.20", "text/html; charset=utf-8", 200},
		{"/c/0123456789abcdef/samtools:1.20@sha256:" + strings.Repeat("0f", 32), "text/html; charset=utf-8", 200},
		{"/c/0123456789ABCDEF", "application/json", 404},
		{"/c/0123456789abcdef/samtools/1.20", "application/json", 404},
		{"/cat", "application/json", 404},
		{"/login", "text/html; charset=utf-8", 200},
		{"/view/runs?workspace=1", "text/html; charset=utf-8", 200},
		{"/user/ada/watch/4kTcGUm9Zv", "text/html; charset=utf-8", 200},
		{"/orgs/lab/workspaces/rna-seq_2/watch/4kTcGUm9Zv", "text/html; charset=utf-8", 200},
		{"/user/ada/watch/", "application/json", 404},
		{"/user/ada/watch/4kTcGUm9Zv4kTcGUm9Zv", "application/json", 404},
		{"/orgs", "application/json", 404},
		{"/login/", "application/json", 404},
		{"/view/inspect/", "text/html; charset=utf-8", 404},
		{"/view/builds/0123456789ABCDEF_1", "text/html; charset=utf-8", 404},
		{"/view", "text/html; charset=utf-8", 404},
		{"/view/" + strings.Repeat("a/", 300), "text/html; charset=utf-8", 404},
		{asset, "image/svg+xml", 200},
		{path.Dir(asset) + "/index.html", "application/json", 404},
		{path.Dir(asset) + "/../../web.go", "application/json", 404},
		{"/web/", "application/json", 404},
		{"/web", "application/json", 404},
		{"/viewer", "application/json", 404},
		{"/openapi/", "text/html; charset=utf-8", 200},
		{"/v1alpha2/container/x", "application/json", 404},
	} {
		if w := open(t, h, c.at); w.Code != c.status || w.Header().Get("Content-Type") != c.kind {
			t.Errorf("%s is %d %s, want %d %s", c.at, w.Code, w.Header().Get("Content-Type"), c.status, c.kind)
		}
	}
	old := path.Join("/web/0123456789abcdef", path.Base(asset))
	if w := open(t, h, old); w.Code != http.StatusOK || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("another release's file is %d, to be kept %s", w.Code, w.Header().Get("Cache-Control"))
	}
}

// TestWebFindsItsFiles checks that a document's addresses work at any depth.
func TestWebFindsItsFiles(t *testing.T) {
	t.Parallel()
	h := alone(t)
	for _, at := range []string{"/", "/view/builds/0123456789abcdef_1", "/view/inspect", "/c", "/c/", "/c/0123456789abcdef", "/c/0123456789abcdef/samtools:1.20", "/orgs/lab/workspaces/rna/watch/4k", "/view/a/b/c", "/view/"} {
		for _, m := range address.FindAllStringSubmatch(open(t, h, at).Body.String(), -1) {
			if w := open(t, h, path.Join(path.Dir(at+"x"), m[1])); w.Code != http.StatusOK {
				t.Errorf("%s leads to %s: %d", at, m[1], w.Code)
			}
		}
	}
}

// TestWebPackages compares the files from npm with the list of packages.
func TestWebPackages(t *testing.T) {
	t.Parallel()
	list, err := os.ReadFile("web/npm/LIST")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]string{}
	for line := range strings.Lines(string(list)) {
		if parts := strings.Fields(line); !strings.HasPrefix(line, "#") && len(parts) == 5 {
			listed[parts[1]] = parts[0]
		}
	}
	files, err := os.ReadDir("web/npm")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.Name() == "LIST" {
			continue
		}
		raw, err := os.ReadFile(path.Join("web/npm", f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(raw); hex.EncodeToString(sum[:]) != listed[f.Name()] {
			t.Errorf("%s is %x, listed as %q", f.Name(), sum, listed[f.Name()])
		}
		delete(listed, f.Name())
	}
	if len(listed) > 0 {
		t.Errorf("listed, but not there: %v", listed)
	}
}
