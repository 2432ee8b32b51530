package gateway

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html"
	"io/fs"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// webFiles are the documents, and the scripts and styles that `make web` has generated from the others.
//
//go:embed web/*.html web/*.svg web/dist web/npm/*.LICENSE
var webFiles embed.FS

// immutable is the Cache-Control of files that have the digest of their content in the
// path.
const immutable = "public, max-age=31536000, immutable"

// web serves the web page: /, the catalogue at /c, and paths below /view/, with its files below /web/<digest of
// all files>/. In the browser it only calls the public API.
type web struct {
	page func() (*webPage, error)
	next http.Handler
}

// webPage is the page, assembled from embedded files at the first request for any of it, as most
// processes start without one.
type webPage struct {
	digest string
	files  map[string]file
	// home is the document of /. It contains the form, and the style and the script that the form needs, so that the
	// form is shown and works without other files.
	home file
	// views are the documents of the other views by their scripts, and missing that of unknown addresses, for each
	// depth of folders at which they are served.
	views   map[string][]file
	missing []file
	// foot is the end of every page.
	foot string
	// docs are the files of the documentation by their paths below /docs/.
	docs map[string]file
}

// withWeb adds the web page to an API. The version is shown on every page. More, if not nil, returns pages that are
// added to the documentation.
func withWeb(next http.Handler, c Conns) http.Handler {
	return &web{page: sync.OnceValues(func() (*webPage, error) { return newWebPage(c) }), next: next}
}

func newWebPage(c Conns) (*webPage, error) {
	w := &webPage{files: map[string]file{}, docs: map[string]file{}}
	sum, scripts := sha256.New(), map[string][]byte{}
	err := fs.WalkDir(webFiles, "web", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) == ".html" {
			return err
		}
		text, err := webFiles.ReadFile(name)
		if err != nil {
			return err
		}
		name = strings.TrimPrefix(strings.TrimPrefix(name, "web/"), "dist/")
		if mediaType(name) == scriptType {
			scripts[name] = text
		}
		w.files[name] = newWebFile(name, text, immutable)
		_, err = fmt.Fprintf(sum, "%s\x00%d\x00%s", name, len(text), text)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the web page: %w", err)
	}
	w.digest = hex.EncodeToString(sum.Sum(nil)[:8])
	if err := w.layouts(scripts, c); err != nil {
		return nil, fmt.Errorf("reading the web page: %w", err)
	}
	return w, w.newDocuments(c.Documents)
}

// layouts creates the documents of the views. Their files must be there.
func (w *webPage) layouts(scripts map[string][]byte, c Conns) error {
	texts := map[string]string{}
	for _, name := range []string{"index.html", "home.html", "later.html", "missing.html", "foot.html"} {
		text, err := webFiles.ReadFile("web/" + name)
		if err != nil {
			return err
		}
		texts[name] = string(text)
	}
	script, err := entry(scripts)
	if err != nil {
		return err
	}
	first, err := inline(script, string(scripts[script]), "./web/"+w.digest+"/")
	if err != nil {
		return err
	}
	w.files[sharedFile] = newWebFile(sharedFile, []byte(first.shared), immutable)
	const styles = `<link rel="stylesheet" href="@web@/base.css">` + "\n" + `<link rel="stylesheet" href="@web@/style.css">` + "\n"
	w.foot = strings.ReplaceAll(texts["foot.html"], "@version@", html.EscapeString(c.Version))
	texts["index.html"] = strings.Replace(texts["index.html"], "@provider@", html.EscapeString(cmp.Or(c.Provider, organisationsAccount)), 1)
	w.missing = w.layout(texts["missing.html"])
	w.views = map[string][]file{}
	for _, view := range []string{"account", "build", "catalog", "catalogimage", "container", "inspect", "scan", "status"} {
		class := ""
		if strings.HasPrefix(view, "catalog") {
			class = "wide"
		}
		fill := strings.NewReplacer("@head@\n", styles+preloads(scripts, script, view), "@page@\n", texts["later.html"], "@class@", class,
			"@script@\n", `<script type="module" src="@web@/`+script+`"></script>`+"\n")
		w.views[view] = w.layout(fill.Replace(texts["index.html"]))
	}
	style := string(w.files["base.css"].text)
	fill := strings.NewReplacer("@head@\n", "<style>"+style+"</style>\n"+first.head, "@page@\n", texts["home.html"], "@class@", "", "@script@\n", first.end)
	w.home = w.layout(fill.Replace(texts["index.html"]))[0]
	w.home.policy = strings.NewReplacer("style-src 'self'", "style-src 'self' "+policyHash(style), "script-src 'self'", "script-src 'self' "+first.sources,
		"form-action 'none'", "form-action 'self'").Replace(pageCSP)
	return nil
}

// needed matches the static imports of a module; import("…") is loaded later.
var needed = regexp.MustCompile(`(?:from|import)"\./([\w.-]+)"`)

// preloads returns links with which a browser fetches all modules of a view, and those that the entry needs, in parallel
// instead of one level of imports after another.
func preloads(scripts map[string][]byte, entry, view string) string {
	first := []string{entry}
	for name := range scripts {
		if own, _, _ := strings.Cut(name, "-"); own == view {
			first = append(first, name)
		}
	}
	for i := 0; i < len(first); i++ {
		for _, m := range needed.FindAllSubmatch(scripts[first[i]], -1) {
			if to := string(m[1]); !slices.Contains(first, to) {
				first = append(first, to)
			}
		}
	}
	var b strings.Builder
	for _, m := range first[1:] {
		fmt.Fprintf(&b, "<link rel=\"modulepreload\" href=\"@web@/%s\">\n", m)
	}
	return b.String()
}

// layout returns an HTML page for each depth of folders at which it may be served, since its addresses are relative.
func (w *webPage) layout(text string) []file {
	at := make([]file, maxDepth+1)
	for depth := range at {
		root := "./" + strings.Repeat("../", depth)
		fill := strings.NewReplacer("@web@", root+"web/"+w.digest, "@root@", root)
		at[depth] = newWebFile("page.html", []byte(fill.Replace(strings.Replace(text, "@foot@\n", w.foot, 1))), "no-cache")
	}
	return at
}

// robots excludes crawlers: the pages are for users only, or change with every request.
const robots = "User-agent: *\nDisallow: /\n"

// maxDepth is the maximum depth of folders at which a page finds its style.
const maxDepth = 8

func newWebFile(name string, text []byte, cache string) file {
	f := newFile(name, text)
	f.cache = cache
	f.zipped = sync.OnceValue(func() []byte { return zip(text) }) // zipped on the first request
	return f
}

func zip(text []byte) []byte {
	var b bytes.Buffer
	to, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err == nil {
		_, err = to.Write(text)
	}
	if err != nil || to.Close() != nil {
		return nil
	}
	return b.Bytes()
}

// views matches the paths of the page's views: the public ones, with the names of kept images, the sign-in, those of a
// signed-in user, and the address where runs are watched according to the platform
// (services/platform/runs).
var views = regexp.MustCompile(`^/(view/inspect|view/status|view/(builds|mirrors)/[0-9a-f]{16}_[0-9]{1,9}|view/scans/sc-[0-9a-f]{16}_[0-9]{1,9}|view/containers/([a-z2-7]{26}|[0-9a-f]{64})|c(/(([0-9a-f]{16}|org-[a-z2-7]{26})(/([\w.-]{1,200}(:[\w.-]{1,200})?(@sha256:[0-9a-f]{64})?)?)?)?)?|login|view/(containers|mine|runs|tokens|logins|webhooks|workspaces|service|admin/limits)|` +
	`(user/[\w.-]{1,100}|orgs/[\w-]{1,40}/workspaces/[\w-]{1,40})/watch/[0-9A-Za-z]{1,16})?$`)

// viewOf returns the name of the script that shows a path of views, apart from /.
func viewOf(at string) string {
	folder, name, _ := strings.Cut(strings.TrimPrefix(at, "/"), "/")
	kind, id, _ := strings.Cut(name, "/")
	switch {
	case folder == "c" && name == "":
		return "catalog"
	case folder == "c":
		return "catalogimage"
	case folder == "view" && (kind == "builds" || kind == "mirrors"):
		return "build"
	case folder == "view" && kind == "scans":
		return "scan"
	case folder == "view" && kind == "containers" && id != "":
		return "container"
	case folder == "view" && kind == "inspect":
		return "inspect"
	case folder == "view" && kind == "status":
		return "status"
	}
	return "account"
}

func (w *web) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	at := r.URL.Path
	isRead := r.Method == http.MethodGet || r.Method == http.MethodHead
	if isRead && !ofWeb(at) && strings.Contains(r.Header.Get("Accept"), "text/html") { // a browser
		r = r.WithContext(context.WithValue(r.Context(), missingKey{}, w))
	}
	if !isRead || !ofWeb(at) {
		w.next.ServeHTTP(rw, r)
		return
	}
	page, ok := w.open(rw, r)
	if !ok {
		return
	}
	depth := strings.Count(at, "/") - 1
	switch {
	case strings.HasPrefix(at, "/web/"):
		if f, ok := page.asset(strings.TrimPrefix(at, "/web/")); ok {
			f.serve(rw, r)
			return
		}
		w.next.ServeHTTP(rw, r)
	case at == "/favicon.ico": // browsers use the media type
		page.files["icon.svg"].serve(rw, r)
	case at == "/robots.txt":
		newWebFile("robots.txt", []byte(robots), "public, max-age=86400").serve(rw, r)
	case at == "/":
		page.home.serve(rw, r)
	case views.MatchString(at):
		page.views[viewOf(at)][min(depth, maxDepth)].serve(rw, r)
	case at == "/docs":
		redirectBelow(rw, "docs/")
	case strings.HasPrefix(at, "/docs/"):
		page.document(rw, r, strings.TrimPrefix(at, "/docs/"))
	default:
		page.notFound(rw, r)
	}
}

// missingKey is the key of the web in the context of a browser's request, which gets a page instead of JSON
// if there is no such path.
type missingKey struct{}

// open returns the page, or writes an error and returns false.
func (w *web) open(rw http.ResponseWriter, r *http.Request) (*webPage, bool) {
	page, err := w.page()
	if err != nil {
		noteFailure(r.Context(), err)
		WriteMessage(rw, http.StatusInternalServerError, "Internal error")
	}
	return page, err == nil
}

// document writes a file of the documentation.
func (w *webPage) document(rw http.ResponseWriter, r *http.Request, at string) {
	if f, ok := w.docs[at]; ok {
		f.serve(rw, r)
		return
	}
	if _, ok := w.docs[at+"/"]; ok {
		redirectBelow(rw, path.Base(at)+"/")
		return
	}
	w.notFound(rw, r)
}

// redirectBelow redirects to a relative address, since the prefix of the site is unknown here.
func redirectBelow(rw http.ResponseWriter, to string) {
	rw.Header().Set("Location", to)
	rw.WriteHeader(http.StatusMovedPermanently)
}

// notFound writes the page for an unknown address.
func (w *webPage) notFound(rw http.ResponseWriter, r *http.Request) {
	text := w.missing[min(strings.Count(r.URL.Path, "/")-1, maxDepth)].head(rw, r)
	rw.WriteHeader(http.StatusNotFound)
	_, _ = rw.Write(text) // the client may have disconnected
}

// ofWeb reports whether a path belongs to the web page. Unknown paths below /view/ do, too.
func ofWeb(at string) bool {
	return at == "/view" || at == "/docs" || at == "/favicon.ico" || at == "/robots.txt" ||
		strings.HasPrefix(at, "/view/") || strings.HasPrefix(at, "/docs/") || strings.HasPrefix(at, "/web/") || views.MatchString(at)
}

// asset returns a file of the page. While replicas are being replaced, a browser may request
// the files of another version: it gets this version's, and may not cache them.
func (w *webPage) asset(at string) (file, bool) {
	digest, name, _ := strings.Cut(at, "/")
	f, ok := w.files[name]
	if digest != w.digest {
		f.cache = "no-store"
	}
	return f, ok
}
