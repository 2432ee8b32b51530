package gateway

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"slipway.dev/gateway/manual"
)

//go:embed web/*.html web/*.js web/*.css web/*.svg web/npm/*.js web/npm/*.mjs web/npm/*.LICENSE
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
	// shell and missing return a document for the depth of folders at which it is served.
	// Its addresses are relative, since the prefix of the site is unknown here.
	shell, missing func(depth int) file
	// docs are the files of the documentation by their paths below /docs/.
	docs map[string]file
}

// withWeb adds the web page to an API. More, if not nil, returns pages that are added to the documentation.
func withWeb(next http.Handler, more func() []manual.Document) http.Handler {
	return &web{page: sync.OnceValues(func() (*webPage, error) { return newWebPage(more) }), next: next}
}

func newWebPage(more func() []manual.Document) (*webPage, error) {
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
		name = strings.TrimPrefix(name, "web/")
		if mediaType(name) == scriptType {
			if text, err = resolved(name, text); err != nil {
				return err
			}
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
	if w.shell, err = w.layout("index.html", preloads(scripts)); err != nil {
		return nil, err
	}
	if w.missing, err = w.layout("missing.html", ""); err != nil {
		return nil, err
	}
	return w, w.newDocuments(more)
}

// needed matches the static imports of a module; import("…") is loaded later.
var needed = regexp.MustCompile(`from ?"(\.[^"]+)"`)

// preloads returns links with which a browser fetches all modules of the first view in
// parallel instead of one level of imports after another.
func preloads(scripts map[string][]byte) string {
	first := []string{"app.js"}
	for i := 0; i < len(first); i++ {
		for _, m := range needed.FindAllSubmatch(scripts[first[i]], -1) {
			if to := path.Join(path.Dir(first[i]), string(m[1])); !slices.Contains(first, to) {
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

// layout returns an HTML page, whose addresses depend on where it is served.
func (w *webPage) layout(name, head string) (func(depth int) file, error) {
	text, err := webFiles.ReadFile("web/" + name)
	if err != nil {
		return nil, fmt.Errorf("reading the web page: %w", err)
	}
	at := make([]file, maxDepth+1)
	for depth := range at {
		root := "./" + strings.Repeat("../", depth)
		page := strings.NewReplacer("@head@\n", head, "@web@", root+"web/"+w.digest, "@root@", root)
		at[depth] = newWebFile(name, []byte(page.Replace(page.Replace(string(text)))), "no-cache")
	}
	return func(depth int) file { return at[min(depth, maxDepth)] }, nil
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

// imported matches imports by a package's name.
var imported = regexp.MustCompile(`from ?"(@?[a-z][a-z0-9/-]*)"`)

// resolved replaces package names in a module by paths. Browsers only know package names
// with an import map, which would have to be a script in the page.
func resolved(name string, text []byte) (out []byte, err error) {
	packages := map[string]string{
		"preact": "preact.mjs", "preact/hooks": "hooks.mjs", "htm": "htm.module.js",
		"@preact/signals": "signals.module.js", "@preact/signals-core": "signals-core.module.js",
	}
	to := "./npm/"
	if strings.HasPrefix(name, "npm/") {
		to = "./"
	}
	out = imported.ReplaceAllFunc(text, func(from []byte) []byte {
		known := packages[string(imported.FindSubmatch(from)[1])]
		if known == "" {
			err = fmt.Errorf("%s imports %s, which is not here", name, from)
		}
		return []byte(`from"` + to + known + `"`)
	})
	return out, err
}

// views matches the paths of the page's views: the public ones, with the names of kept images, the sign-in, those of a
// signed-in user, and the address where runs are watched according to the platform
// (services/platform/runs).
var views = regexp.MustCompile(`^/(view/inspect|view/(builds|mirrors)/[0-9a-f]{16}_[0-9]{1,9}|view/scans/sc-[0-9a-f]{16}_[0-9]{1,9}|view/containers/([a-z2-7]{26}|[0-9a-f]{64})|c(/([0-9a-f]{16}(/([\w.-]{1,200}(:[\w.-]{1,200})?(@sha256:[0-9a-f]{64})?)?)?)?)?|login|view/(containers|mine|runs|tokens|logins|webhooks|workspaces|service|admin/limits)|` +
	`(user/[\w.-]{1,100}|orgs/[\w-]{1,40}/workspaces/[\w-]{1,40})/watch/[0-9A-Za-z]{1,16})?$`)

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
	case views.MatchString(at):
		page.shell(depth).serve(rw, r)
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
	text := w.missing(strings.Count(r.URL.Path, "/")-1).head(rw, r)
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
