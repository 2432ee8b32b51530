package app

import (
	"net/http"
	"strings"
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

// registryRoute is a path of the registry without what differs between requests, for
// metrics and span names; other for any other path, whose route the gateway knows.
func registryRoute(path string) string {
	switch {
	case path == "/v2", path == "/v2/":
		return "/v2"
	case !strings.HasPrefix(path, "/v2/wt/"):
		return other
	}
	for _, kind := range []string{"manifests", "blobs", "tags", "referrers"} {
		if strings.Contains(path, "/"+kind+"/") {
			return "/v2/wt/*/" + kind
		}
	}
	return "/v2/wt/*"
}
