package spec_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slipway.dev/services/conda/spec"
)

// aWheel returns a package whose wheel has a file name.
func aWheel(name, version, file string) spec.PyPIPackage {
	return spec.PyPIPackage{Name: name, Version: version, URL: "https://files.example/packages/" + file, SHA256: strings.Repeat("1a", 32)}
}

// TestWheelTags compares which wheels fit with the tags that pip's library packaging lists
// (testdata/wheel-tags.json, made by services/tools/oracle/wheels.py).
func TestWheelTags(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("testdata/wheel-tags.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Tags     []string
		Machines []struct {
			Python, Platform, Glibc string
			FreeThreaded            bool
			Fits                    []int // indexes of Tags
		}
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Machines) < 10 || len(file.Tags) < 500 {
		t.Fatalf("%d machines and %d tags", len(file.Machines), len(file.Tags))
	}
	for _, m := range file.Machines {
		python := spec.Python{Minor: m.Python, SitePackages: "lib/python" + m.Python + "/site-packages", FreeThreaded: m.FreeThreaded}
		var got []int
		for i, tag := range file.Tags {
			if _, err := aWheel("a", "1", "a-1-"+tag+".whl").Wheel(python, m.Platform, m.Glibc); err == nil {
				got = append(got, i)
			}
		}
		if len(m.Fits) == 0 {
			t.Errorf("nothing fits %+v", m)
		}
		if diff := cmp.Diff(m.Fits, got); diff != "" {
			t.Errorf("Python %s (free-threaded: %t) on %s, glibc %s (-packaging +slipway):\n%s", m.Python, m.FreeThreaded, m.Platform, m.Glibc, diff)
		}
	}
}

// TestWheelsThatCannotBeUsed checks the reasons, which name the package.
func TestWheelsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	python := spec.Python{Minor: "3.11", SitePackages: "lib/python3.11/site-packages"}
	noHash := aWheel("a", "1", "a-1-py3-none-any.whl")
	noHash.SHA256 = ""
	for _, c := range []struct {
		p    spec.PyPIPackage
		in   spec.Python
		want string
	}{
		{aWheel("six", "1.0", "six-1.0.tar.gz"), python, "six 1.0: six-1.0.tar.gz is not a wheel, and nothing is built from source"},
		{aWheel("a", "1", "a-1.whl"), python, "a-1.whl is not the name of a wheel"},
		{aWheel("a", "1", "b-1-py3-none-any.whl"), python, "a 1: the file b-1-py3-none-any.whl is that of b 1"},
		{aWheel("a", "2", "a-1-py3-none-any.whl"), python, "a 2: the file a-1-py3-none-any.whl is that of a 1"},
		{aWheel("a", "1", "a-1-py3-none-any.whl"), spec.Python{}, "add the Conda package python"},
		{aWheel("a", "1", "a-1-cp310-cp310-manylinux2014_x86_64.whl"), python, "it is for cp310 (cp310) and not for Python 3.11"},
		{aWheel("a", "1", "a-1-cp311-cp311-macosx_11_0_arm64.whl"), python, "it is for macosx_11_0_arm64 and not for linux-64 with glibc 2.36"},
		{aWheel("a", "1", "a-1-cp311-cp311-musllinux_1_2_x86_64.whl"), python, "it is for musllinux_1_2_x86_64 and not"},
		{aWheel("a", "1", "a-1-cp311-cp311-manylinux_2_37_x86_64.whl"), python, "it is for manylinux_2_37_x86_64 and not"},
		{noHash, python, "no sha256 of a-1-py3-none-any.whl"},
	} {
		_, err := c.p.Wheel(c.in, "linux-64", "2.36")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.p.URL, err, c.want)
		}
	}
}

// TestWheelRecord checks that a wheel's record leads back to the lock, and that its layer
// depends on the file and on Python only.
func TestWheelRecord(t *testing.T) {
	t.Parallel()
	p := aWheel("Flit_Core", "3.9.0+cu118", "flit_core-3.9.0%2Bcu118-py3-none-any.whl")
	p.Requires = []string{"Tomli>=1 ; python_version < '3.11'", "pytest[testing] ; extra == 'test'", "b.c (>=2)"}
	p.RequiresPython = ">=3.6"
	python := spec.Python{Minor: "3.11", SitePackages: "lib/python3.11/site-packages"}
	r, err := p.Wheel(python, "linux-64", "2.36")
	if err != nil {
		t.Fatal(err)
	}
	if !r.IsWheel() || r.Name != "flit-core" || r.FileName != "flit_core-3.9.0+cu118-py3-none-any.whl" || !cmp.Equal(r.Needs(), []string{"tomli", "b-c"}) {
		t.Errorf("the record is %+v, and needs %q", r, r.Needs())
	}
	packages, wheels := spec.Split([]spec.Record{{Name: "python", Version: "3.11.7"}, r})
	p.Name = "flit-core"
	if len(packages) != 1 || !cmp.Equal(wheels, []spec.PyPIPackage{p}) {
		t.Errorf("they are split into %v and %v", packages, wheels)
	}
	key := func(r spec.Record, in spec.Python) spec.LayerKey {
		k, err := r.LayerKey(in, spec.Gzip, "")
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	mirrored := r
	mirrored.URL, mirrored.Depends = "https://mirror.example/"+r.FileName, nil
	if key(mirrored, python) != key(r, python) {
		t.Error("the address or the requirements change the layer")
	}
	other := r
	other.SHA256 = strings.Repeat("2b", 32)
	if key(other, python) == key(r, python) || key(r, spec.Python{Minor: "3.12", SitePackages: "lib/python3.12/site-packages"}) == key(r, python) {
		t.Error("another file or Python does not change the layer")
	}
}

// FuzzWheelName parses file names of wheels.
func FuzzWheelName(f *testing.F) {
	f.Add("numpy-2.1.3-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl")
	f.Add("a-1-1-py2.py3-none-any.whl")
	f.Fuzz(func(t *testing.T, file string) {
		n, err := spec.ParseWheelName(file)
		if err != nil {
			return
		}
		if n.Name != spec.NormalName(n.Name) || strings.ContainsAny(n.Name+n.Version, "/\\\x00 ") || !n.IsVersion(n.Version) {
			t.Errorf("%q is %+v", file, n)
		}
	})
}
