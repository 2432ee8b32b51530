package gateway_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/encoding/protojson"

	"slipway.dev/proto/gen/openapi"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/gateway"
	"slipway.dev/gateway/contracttest"
)

func document(t *testing.T, text []byte) *contracttest.Document {
	t.Helper()
	d, err := contracttest.ReadDocument(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// holds checks a response against a document. A call that the document does not have must
// return 404.
func holds(t *testing.T, d *contracttest.Document, method, path string, resp *http.Response, body []byte) {
	t.Helper()
	err := d.Check(method, path, resp.StatusCode, resp.Header, body)
	routing := resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusMethodNotAllowed || resp.StatusCode == http.StatusForbidden
	if err != nil && (!errors.Is(err, contracttest.ErrUndocumented) || !routing) {
		t.Error(err)
	}
}

// TestDocumentsHaveEveryRoute compares the router with the documents in both directions.
func TestDocumentsHaveEveryRoute(t *testing.T) {
	t.Parallel()
	container, platform, err := gateway.Routers(context.Background(), refusing{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		mux  *runtime.ServeMux
		doc  []byte
	}{{"container", container, openapi.Container}, {"platform", platform, openapi.Platform}} {
		var documented []string
		for path, item := range document(t, c.doc).Paths.Map() {
			for verb := range item.Operations() {
				documented = append(documented, verb+" "+regexp.MustCompile(`\{\w+\}`).ReplaceAllString(path, "*"))
			}
		}
		slices.Sort(documented)
		if served := routesOf(c.mux); !slices.Equal(served, documented) {
			t.Errorf("%s serves\n%s\nbut documents\n%s", c.name, strings.Join(served, "\n"), strings.Join(documented, "\n"))
		}
	}
}

// routesOf returns the routes of a router through reflection, since it does not export
// them.
func routesOf(mux *runtime.ServeMux) []string {
	var out []string
	field := func(v reflect.Value) reflect.Value {
		return reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Elem()
	}
	handlers := field(reflect.ValueOf(mux).Elem().FieldByName("handlers"))
	for _, verb := range handlers.MapKeys() {
		list := handlers.MapIndex(verb)
		for i := range list.Len() {
			pattern := field(list.Index(i).FieldByName("pat")).Interface().(runtime.Pattern)
			out = append(out, verb.String()+" "+regexp.MustCompile(`\{\w+=\*\}`).ReplaceAllString(pattern.String(), "*"))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func ask(t *testing.T, h http.Handler, method, path string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestReference loads the page and its files, as a browser and without compression.
func TestReference(t *testing.T) {
	t.Parallel()
	api, err := gateway.New(t.Context(), gateway.Conns{})
	if err != nil {
		t.Fatal(err)
	}
	platform, err := gateway.NewPlatform(t.Context(), refusing{}, refusing{}, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		face       http.Handler
		path, kind string
		want       string
	}{
		{api, "/openapi.json", "application/json", `"title": "Slipway, container service"`},
		{api, "/openapi.yml", "application/yaml", "title: Slipway, container service"},
		{platform, "/openapi.json", "application/json", `"title": "Slipway, platform"`},
		{platform, "/openapi.yml", "application/yaml", "title: Slipway, platform"},
		{api, "/openapi/", "text/html; charset=utf-8", "swagger-ui-bundle.js"},
		{platform, "/openapi/", "text/html; charset=utf-8", "swagger-ui-bundle.js"},
		{api, "/openapi/start.js", "text/javascript; charset=utf-8", "../openapi.json"},
		{api, "/openapi/swagger-ui.css", "text/css; charset=utf-8", ".swagger-ui"},
		{api, "/openapi/swagger-ui-bundle.js", "text/javascript; charset=utf-8", "SwaggerUIBundle"},
		{api, "/openapi/favicon-32x32.png", "image/png", "PNG"},
	} {
		w := ask(t, c.face, http.MethodGet, c.path)
		h := w.Header()
		if w.Code != 200 || h.Get("Content-Type") != c.kind || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s: got %d %s %.200s", c.path, w.Code, h.Get("Content-Type"), w.Body)
		}
		if !strings.Contains(h.Get("Content-Security-Policy"), "default-src 'none'") || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: the headers are %v", c.path, h)
		}
		if again := ask(t, c.face, http.MethodGet, c.path, "If-None-Match", h.Get("Etag")); again.Code != http.StatusNotModified {
			t.Errorf("%s: unchanged is answered %d", c.path, again.Code)
		}
		if head := ask(t, c.face, http.MethodHead, c.path); head.Code != 200 || head.Body.Len() > 0 {
			t.Errorf("%s: HEAD is answered %d, %d bytes", c.path, head.Code, head.Body.Len())
		}
	}
	zipped := ask(t, api, http.MethodGet, "/openapi/swagger-ui-bundle.js", "Accept-Encoding", "br, gzip")
	if zipped.Header().Get("Content-Encoding") != "gzip" || zipped.Header().Get("Vary") != "Accept-Encoding" {
		t.Errorf("the headers are %v", zipped.Header())
	}
	if w := ask(t, api, http.MethodGet, "/openapi"); w.Code != http.StatusMovedPermanently || w.Header().Get("Location") != "openapi/" {
		t.Errorf("got %d to %q", w.Code, w.Header().Get("Location"))
	}
	for _, path := range []string{"/openapi/nothing", "/openapi/../gateway.go", "/openapi/index.html", "/openapis"} {
		if w := ask(t, api, http.MethodGet, path); w.Code != http.StatusNotFound {
			t.Errorf("%s: got %d", path, w.Code)
		}
		if w := ask(t, platform, http.MethodGet, path); w.Code != http.StatusForbidden {
			t.Errorf("%s: got %d", path, w.Code)
		}
	}
	if w := ask(t, api, http.MethodPost, "/openapi/"); w.Code == 200 {
		t.Errorf("POST is answered %d", w.Code)
	}
}

// TestExamplesToTry checks that the first examples of the reference can be sent as they
// are, and cover each kind of request.
func TestExamplesToTry(t *testing.T) {
	t.Parallel()
	op := document(t, openapi.Container).Paths.Map()["/v1alpha2/container"].Post
	seen := map[string]bool{}
	for name, example := range op.RequestBody.Value.Content.Get("application/json").Examples {
		if !strings.Contains("123456", name[:1]) {
			continue // an example that only tests use
		}
		raw, err := json.Marshal(example.Value.Value)
		if err != nil {
			t.Fatal(err)
		}
		var req containerv1.ContainerRequest
		if err := protojson.Unmarshal(raw, &req); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		text, err := base64.StdEncoding.DecodeString(req.GetContainerFile() + req.GetCondaFile())
		if err != nil || strings.Contains(req.GetContainerImage(), "example.org") {
			t.Errorf("%s: %s, %v", name, text, err)
		}
		for kind, is := range map[string]bool{
			"image": req.GetContainerImage() != "", "Conda": len(req.GetPackages().GetEntries()) > 0, "environment": strings.Contains(string(text), "dependencies:"),
			"Dockerfile": strings.HasPrefix(string(text), "FROM "), "freeze": req.GetFreeze(), "Singularity": req.GetFormat() == "sif",
		} {
			seen[kind] = seen[kind] || is
		}
	}
	for _, kind := range []string{"image", "Conda", "environment", "Dockerfile", "freeze", "Singularity"} {
		if !seen[kind] {
			t.Errorf("there is no example of %s", kind)
		}
	}
}
