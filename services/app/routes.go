package app

import (
	"net/http"
	"strings"
)

// other replaces unbounded values in metrics and span names.
const other = "other"

// method returns a request's method for metrics and spans; other for an uncommon one, since
// clients may send any.
func method(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return r.Method
	}
	return other
}

// registryRoute returns the route of a path of the registry, for metrics and span names; other
// for any other path, whose route the gateway sets.
func registryRoute(path string) string {
	if path == "/v2" || path == "/v2/" {
		return "/v2"
	}
	for _, names := range []string{"/v2/wt/", "/v2/c/"} {
		if !strings.HasPrefix(path, names) {
			continue
		}
		for _, kind := range []string{"manifests", "blobs", "tags", "referrers"} {
			if strings.Contains(path, "/"+kind+"/") {
				return names + "*/" + kind
			}
		}
		return names + "*"
	}
	return other
}
