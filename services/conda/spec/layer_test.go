package spec_test

import (
	"testing"

	"slipway.dev/services/conda/spec"
)

// TestPythons checks the paths of packages that support any Python.
func TestPythons(t *testing.T) {
	t.Parallel()
	python := func(version, build, sitePackages string) (spec.Python, error) {
		return spec.PythonOf([]spec.Record{
			{Name: "zlib", Version: "1"}, {Name: "python", Version: version, Build: build, PythonSitePackagesPath: sitePackages}, {Name: "pip", Version: "x"},
		})
	}
	for _, c := range []struct{ version, build, sitePackages, want string }{
		{"3.10.13", "hbbe8eec_0_cpython", "", "lib/python3.10/site-packages"},
		{"3.13.0", "h9a34b6e_5_cp313t", "", "lib/python3.13t/site-packages"},
		{"3.13.1", "h9a34b6e_5_cp313t", "lib/python3.13t/site-packages", "lib/python3.13t/site-packages"},
		{"3.14.0rc1", "x", "lib/./py", "lib/py"},
	} {
		got, err := python(c.version, c.build, c.sitePackages)
		if err != nil || got.SitePackages != c.want {
			t.Errorf("%s %s: %+v, %v", c.version, c.build, got, err)
		}
	}
	for _, c := range [][2]string{{"three", ""}, {"3", ""}, {"3.1x", ""}, {"3.10.1", "../x"}, {"3.10.1", "/x"}, {"3.10.1", "a\x00b"}} {
		if p, err := python(c[0], "", c[1]); err == nil {
			t.Errorf("%q was accepted as %+v", c, p)
		}
	}
	if p, err := spec.PythonOf(nil); err != nil || p != (spec.Python{}) {
		t.Errorf("without Python: %+v, %v", p, err)
	}
}

// TestLayerKeys checks that a layer key covers everything that determines the layer, and
// nothing else.
func TestLayerKeys(t *testing.T) {
	t.Parallel()
	python := spec.Python{Minor: "3.12", SitePackages: "lib/python3.12/site-packages"}
	key := func(rec spec.Record, p spec.Python, compression, scope string) spec.LayerKey {
		k, err := rec.LayerKey(p, compression, scope)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	zlib, six := spec.Record{Name: "zlib", Version: "1.3", Subdir: "linux-64"}, spec.Record{Name: "six", Version: "1.16", Subdir: "noarch", NoArch: "python"}
	corrected := zlib
	corrected.Depends = []string{"libgcc"}
	seen := map[spec.LayerKey]string{}
	for what, k := range map[string]spec.LayerKey{
		"zlib": key(zlib, python, "gzip", ""), "corrected": key(corrected, python, "gzip", ""), "zstd": key(zlib, python, "zstd", ""),
		"private": key(zlib, python, "gzip", "scope"), "six": key(six, python, "gzip", ""), "six without Python": key(six, spec.Python{}, "gzip", ""),
	} {
		if was, ok := seen[k]; ok || len(k) != 64 {
			t.Errorf("%s has the same key %q as %s", what, k, was)
		}
		seen[k] = what
	}
	if key(zlib, python, "gzip", "") != key(zlib, spec.Python{}, "gzip", "") {
		t.Error("the key of a platform-specific package depends on Python")
	}
	if k := key(zlib, python, "gzip", ""); k.At("a/b") == k.At("a/c") || len(k.At("a/b")) != 32+1+64 {
		t.Error("keys of different repositories are equal")
	}
}
