package app

import (
	"net/http"
	"strings"
	"sync"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// other stands in metrics and span names for what could be any number of things.
const other = "other"

// method is a request's method as metrics and spans call it: a client may invent
// some.
func method(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return r.Method
	}
	return other
}

// route is a path without what differs between requests, for metrics and span
// names: one of a fixed number.
func route(path string) string {
	if strings.HasPrefix(path, "/v2/wt/") {
		for _, kind := range []string{"manifests", "blobs", "tags", "referrers"} {
			if strings.Contains(path, "/"+kind+"/") {
				return "/v2/wt/*/" + kind
			}
		}
		return "/v2/wt/*"
	}
	at := routes()
	for segment := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		next := at.below[segment]
		if next == nil {
			next = at.below["*"]
		}
		if next == nil {
			return other
		}
		at = next
	}
	if at.name == "" {
		return other
	}
	return at.name
}

// platformRoute is route for the platform's own address: the same as below /api.
func platformRoute(path string) string { return route("/api" + path) }

// pathTree is the routes of the REST API, a segment a level; "*" is any segment.
type pathTree struct {
	name  string // "" where no route ends
	below map[string]*pathTree
}

func (t *pathTree) add(pattern string) {
	var name strings.Builder
	for segment := range strings.SplitSeq(strings.Trim(pattern, "/"), "/") {
		if strings.HasPrefix(segment, "{") {
			segment = "*"
		}
		name.WriteString("/" + segment)
		if t.below == nil {
			t.below = map[string]*pathTree{}
		}
		if t.below[segment] == nil {
			t.below[segment] = &pathTree{}
		}
		t = t.below[segment]
	}
	t.name = name.String()
}

// routes is what the rooms' annotations say, and the few paths beside them.
//
//nolint:gochecknoglobals // made once from what is compiled in
var routes = sync.OnceValue(func() *pathTree {
	t := &pathTree{}
	for _, p := range []string{
		"/v2", "/v1alpha1/builds/{id}/logs", "/v1alpha1/builds/{id}/events",
		"/api/.well-known/openid-configuration", "/api/oauth/authorize", "/api/oauth/access_token",
	} {
		t.add(p)
	}
	protoregistry.GlobalFiles.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		if !strings.HasPrefix(string(f.Package()), "slipway.") {
			return true
		}
		prefix := ""
		if f.Package() == "slipway.platform.v1" {
			prefix = "/api"
		}
		for _, p := range patterns(f) {
			t.add(prefix + p)
		}
		return true
	})
	return t
})

// patterns are the paths of a file's services.
func patterns(f protoreflect.FileDescriptor) (out []string) {
	for i := range f.Services().Len() {
		methods := f.Services().Get(i).Methods()
		for j := range methods.Len() {
			rule, ok := proto.GetExtension(methods.Get(j).Options(), annotations.E_Http).(*annotations.HttpRule)
			if !ok || rule == nil {
				continue
			}
			for _, r := range append(rule.GetAdditionalBindings(), rule) {
				for _, p := range []string{r.GetGet(), r.GetPost(), r.GetPut(), r.GetPatch(), r.GetDelete()} {
					if p != "" {
						out = append(out, p)
					}
				}
			}
		}
	}
	return out
}
