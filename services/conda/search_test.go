package conda_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// popular serves a channel whose noarch packages depend on its linux-64 packages.
func popular(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/lab/linux-64/repodata.json":
		_, _ = io.WriteString(w, `{"packages.conda":{
 "num-1-0.conda":{"name":"num","version":"1","build":"0"},
 "numba-1-0.conda":{"name":"numba","version":"1","build":"0","depends":["numpy"]},
 "numcodecs-1-0.conda":{"name":"numcodecs","version":"1","build":"0"},
 "numpy-1-0.conda":{"name":"numpy","version":"1","build":"0","license":"MIT"},
 "numpy-2-0.conda":{"name":"numpy","version":"2","build":"0","license":"BSD-3-Clause"},
 "r-num-1-0.conda":{"name":"r-num","version":"1","build":"0","depends":["numba"]}
}}`)
	case "/lab/noarch/repodata.json":
		_, _ = io.WriteString(w, `{"packages.conda":{"app-1-0.conda":{"name":"app","version":"1","build":"0","depends":["numpy >=2","r-num"]},"numpy-doc-1-0.conda":{"name":"numpy-doc","version":"1","build":"0"}}}`)
	case "/lab/linux-aarch64/repodata.json":
		_, _ = io.WriteString(w, `{"packages.conda":{"arms-2-0.conda":{"name":"arms","version":"2","build":"0"},"arms-10-0.conda":{"name":"arms","version":"10","build":"0"},"num-1-0.conda":{"name":"num","version":"1","build":"0"}}}`)
	default:
		http.NotFound(w, r)
	}
}

// TestSearchOrder checks that results are ordered by the kind of match, then by the number
// of records that depend on them, then by name, on each page.
func TestSearchOrder(t *testing.T) {
	t.Parallel()
	service, _ := serve(t, nil, popular)
	var all []string
	for offset := int32(0); offset < 9; offset += 2 {
		got, err := service.SearchPackages(t.Context(), &condav1.SearchPackagesRequest{Q: "num", Channel: "lab", Max: 2, Offset: offset})
		if err != nil || got.GetTotal() != 6 {
			t.Fatal(got, err)
		}
		for _, p := range got.GetPackages() {
			all = append(all, p.GetName())
			if p.GetName() == "numpy" && (p.GetDependents() != 2 || p.GetLicense() != "BSD-3-Clause" || p.GetVersion() != "2") {
				t.Errorf("numpy is %v", p)
			}
		}
	}
	if text := strings.Join(all, " "); text != "num numpy numba numcodecs numpy-doc r-num" {
		t.Errorf("found %s", text)
	}
}

// TestOtherPlatforms checks that a conflict names the platforms that have a package.
func TestOtherPlatforms(t *testing.T) {
	t.Parallel()
	service, _ := serve(t, nil, popular)
	if _, err := lockOf(t, service, &condav1.LockQuery{Packages: entries("lab", "arms"), Platforms: []string{"linux/arm64"}}); err != nil {
		t.Fatal(err)
	}
	got, err := lockOf(t, service, &condav1.LockQuery{Packages: entries("lab", "arms")})
	if err != nil || !strings.Contains(got.GetMessage(), "No package is named arms in lab; arms 10 is only available for linux/arm64") || strings.Join(got.GetConflict().GetMissing()[0].GetPlatforms(), " ") != "linux/arm64" {
		t.Errorf("got %v, %v", got, err)
	}
	got, err = lockOf(t, service, &condav1.LockQuery{Packages: entries("lab", "armz")})
	if err != nil || strings.Contains(got.GetMessage(), "only") {
		t.Errorf("a name that no platform has: %v, %v", got, err)
	}
}

// TestSearchByLicense checks that a licence is found alone and within an expression, that it
// is the one of the newest version, and that too many names are an error.
func TestSearchByLicense(t *testing.T) {
	t.Parallel()
	service, _ := serve(t, nil, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/lab/linux-64/repodata.json":
			_, _ = io.WriteString(w, `{"packages.conda":{
 "json-a-1-0.conda":{"name":"json-a","version":"1","build":"0","license":"GPL-3.0-only"},
 "json-a-2-0.conda":{"name":"json-a","version":"2","build":"0","license":"MIT"},
 "json-b-1-0.conda":{"name":"json-b","version":"1","build":"0","license":"(Apache-2.0 OR mit) AND GPL-2.0-only WITH Classpath-exception-2.0"},
 "json-c-1-0.conda":{"name":"json-c","version":"1","build":"0","license":"MIT-0"},
 "json-d-1-0.conda":{"name":"json-d","version":"1","build":"0","license":"Public Domain, see LICENSE"},
 "json-e-1-0.conda":{"name":"json-e","version":"1","build":"0"},
 "xml-1-0.conda":{"name":"xml","version":"1","build":"0","license":"MIT"}
}}`)
		case "/many/noarch/repodata.json":
			var records []string
			for i := range limits.LicensedNames + 1 {
				records = append(records, fmt.Sprintf(`"p%[1]d-1-0.conda":{"name":"p%[1]d","version":"1","build":"0","license":"MIT"}`, i))
			}
			_, _ = io.WriteString(w, `{"packages.conda":{`+strings.Join(records, ",")+`}}`)
		default:
			http.NotFound(w, r)
		}
	})
	for license, want := range map[string]string{
		"MIT": "json-a json-b", "mit": "json-a json-b", "apache-2.0": "json-b", "GPL-2.0-only": "json-b",
		"GPL-2.0-only WITH Classpath-exception-2.0": "json-b", "MIT-0": "json-c", "public domain, see license": "json-d",
		"GPL-3.0-only": "", "Classpath-exception-2.0": "", "OR": "",
	} {
		got, err := service.SearchPackages(t.Context(), &condav1.SearchPackagesRequest{Q: "json", Channel: "lab", License: license})
		if err != nil {
			t.Fatal(license, err)
		}
		var names []string
		for _, p := range got.GetPackages() {
			names = append(names, p.GetName())
		}
		if text := strings.Join(names, " "); text != want || int(got.GetTotal()) != len(names) {
			t.Errorf("%s: found %q of %d, want %q", license, text, got.GetTotal(), want)
		}
	}
	got, err := service.SearchPackages(t.Context(), &condav1.SearchPackagesRequest{Q: "json", Channel: "lab", License: "MIT", Max: 1, Offset: 1})
	if err != nil || got.GetTotal() != 2 || len(got.GetPackages()) != 1 || got.GetPackages()[0].GetName() != "json-b" {
		t.Errorf("the second page is %v, %v", got, err)
	}
	for _, req := range []*condav1.SearchPackagesRequest{
		{Q: "p", Channel: "many", License: "MIT"},
		{Q: "json", Channel: "lab", License: strings.Repeat("x", limits.License+1)},
	} {
		if _, err := service.SearchPackages(t.Context(), req); !errors.Is(err, fault.Invalid) {
			t.Errorf("%v: %v", req.GetQ(), err)
		}
	}
	if got, err := service.SearchPackages(t.Context(), &condav1.SearchPackagesRequest{Q: "p1", Channel: "many", License: "MIT"}); err != nil || got.GetTotal() != 111 {
		t.Errorf("p1: %d, %v", got.GetTotal(), err)
	}
}
