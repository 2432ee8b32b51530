package lockfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slipway.dev/services/conda/lockfile"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
)

func lockFile(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "locks", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A count is the number of conda and PyPI packages of a platform.
type count struct{ conda, pypi int }

// readable returns the locks that can be used, with the numbers of packages that another
// reader found.
func readable() map[string]map[string]count {
	return map[string]map[string]count{
		"explicit-python-linux-64.txt":                    {"linux-64": {22, 0}},
		"explicit-ros-noetic_linux-64.txt":                {"linux-64": {568, 0}},
		"tests_test-environment-blas-mkl_conda-lock.yml":  {"linux-64": {40, 0}, "osx-64": {34, 0}, "win-64": {35, 0}},
		"tests_test-explicit-toposorted_conda-lock.yml":   {"linux-64": {123, 4}},
		"tests_test-install-with-pip-deps_conda-lock.yml": {"linux-64": {24, 4}, "linux-aarch64": {23, 4}},
		"v0-pypi-matplotlib-conda-lock.yml":               {"linux-64": {24, 12}, "osx-64": {17, 12}, "win-64": {17, 12}},
		"v0-python-conda-lock.yml": {
			"linux-64": {22, 0}, "linux-aarch64": {21, 0}, "linux-ppc64le": {22, 0}, "osx-64": {15, 0}, "osx-arm64": {15, 0}, "win-64": {16, 0},
		},
		"v4-pypi-matplotlib-lock.yml": {"linux-64": {24, 12}, "osx-64": {17, 12}, "win-64": {17, 12}},
		"v4-python-lock.yml": {
			"linux-64": {22, 0}, "linux-aarch64": {21, 0}, "linux-ppc64le": {22, 0}, "osx-64": {15, 0}, "osx-arm64": {15, 0}, "win-64": {16, 0},
		},
		"v5-similar-with-and-without-purl.yml": {"win-64": {1, 0}},
		"v5-stability-original.yml":            {"osx-arm64": {13, 2}, "win-64": {15, 2}},
		"v5-stability-shuffled.yml":            {"osx-arm64": {13, 2}, "win-64": {15, 2}},
		"pixi.lock":                            {"linux-64": {3, 0}, "linux-aarch64": {3, 0}},
		"conda-lock.yml":                       {"linux-64": {3, 0}, "linux-aarch64": {3, 0}},
		"v6-empty-lock.yml":                    {},
		"v7-empty-lock.yml":                    {},
	}
}

// refused returns the locks that cannot be used, with the error text.
func refused() map[string]string {
	return map[string]string{
		"v4-absolute-path-lock.yml":                          `environment default: linux-64[0]: "E:\\Developer\\prefix`,
		"v4-path-based-lock.yml":                             `"click" is a package of pypi from an address outside an index (direct+https://`,
		"v5-flat-index-lock.yml":                             `osx-arm64[17]: "./links/requests-2.31.0-py3-none-any.whl" is a package of pypi from a path`,
		"v6-conda-path-lock.yml":                             `linux-64[0]: "../minimal-project" is not the address of a Conda package: packages from files and from source are not supported`,
		"v6-derived-channel-lock.yml":                        `win-64[1]: "child-package" is not the address`,
		"v6-multiple-source-packages-with-variants-lock.yml": `linux-64[0]: "my-package-linux" is not the address`,
		"v7-conda-path-lock.yml":                             `linux-64-foobar[0]: "minimal-project[ac2e8eb3] @ ../minimal-project" is a package that is built from source`,
		"v7-conda-source-build-host-packages-lock.yml":       `linux-64[2]: "my-package[12345678] @ ./my-package" is a package that is built from source`,
		"v7-derived-channel-lock.yml":                        `win-64[1]: "child-package[87dc0b8a] @ child-package" is a package that is built from source`,
	}
}

func TestReadLock(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/locks/*")
	if err != nil || len(files) < 20 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		if name == "README.md" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := lockfile.Read(lockFile(t, name), "")
			if want, ok := refused()[name]; ok {
				if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q", err, want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]count{}
			for _, p := range l.Platforms {
				got[p.Platform] = count{len(p.Packages), len(p.PyPI)}
			}
			if diff := cmp.Diff(readable()[name], got, cmp.AllowUnexported(count{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestRecordOfLock checks all fields of one package in each format.
func TestRecordOfLock(t *testing.T) {
	t.Parallel()
	openmp := spec.Record{
		Name: "_openmp_mutex", Version: "4.5", Build: "2_gnu", Channel: "https://conda.anaconda.org/conda-forge", Subdir: "linux-64",
		FileName: "_openmp_mutex-4.5-2_gnu.tar.bz2", URL: "https://conda.anaconda.org/conda-forge/linux-64/_openmp_mutex-4.5-2_gnu.tar.bz2",
		MD5: "73aaf86a425cc6e73fcf236a5a46396d",
	}
	const openmpSHA = "fbe2c5e56a653bebb982eda4876a9178aedfc2b545f25d0ce9c4c0b508253d22"
	withSHA := openmp
	withSHA.SHA256 = openmpSHA
	inCondaLock, inPixi := withSHA, withSHA
	inCondaLock.Depends = []string{"_libgcc_mutex 0.1", "libgomp >=7.5.0"}
	inPixi.Depends = []string{"_libgcc_mutex ==0.1 conda_forge", "libgomp >=7.5.0"}
	for _, tc := range []struct {
		file, platform string
		want           spec.Record
	}{
		{"explicit-python-linux-64.txt", "linux-64", openmp},
		{"tests_test-install-with-pip-deps_conda-lock.yml", "linux-64", inCondaLock},
		{"v4-python-lock.yml", "linux-64", inPixi},
		{"v5-stability-shuffled.yml", "osx-arm64", spec.Record{
			Name: "tzdata", Version: "2024a", Build: "h0c530f3_0", NoArch: "generic", Channel: "https://conda.anaconda.org/conda-forge", Subdir: "noarch",
			FileName: "tzdata-2024a-h0c530f3_0.conda", URL: "https://conda.anaconda.org/conda-forge/noarch/tzdata-2024a-h0c530f3_0.conda",
			SHA256: "7b2b69c54ec62a243eb6fba2391b5e443421608c3ae5dbff938ad33ca8db5122", MD5: "161081fc7cec0bfda0d86d7cb595f8d8",
			License: "LicenseRef-Public-Domain", Size: 119815, Timestamp: 1706886945727,
		}},
	} {
		t.Run(tc.file, func(t *testing.T) {
			t.Parallel()
			l, err := lockfile.Read(lockFile(t, tc.file), "")
			if err != nil {
				t.Fatal(err)
			}
			p, err := l.For(tc.platform)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range p.Packages {
				if r.Name == tc.want.Name {
					if diff := cmp.Diff(tc.want, r); diff != "" {
						t.Errorf("(-want +got):\n%s", diff)
					}
					return
				}
			}
			t.Error("the package is missing")
		})
	}
}

// TestOneEnvironmentInThreeFormats compares files of different programs: two have the same
// packages, and one is some weeks older.
func TestOneEnvironmentInThreeFormats(t *testing.T) {
	t.Parallel()
	var locks []lockfile.Lock
	for _, name := range []string{"v0-python-conda-lock.yml", "v4-python-lock.yml"} {
		l, err := lockfile.Read(lockFile(t, name), "")
		if err != nil {
			t.Fatal(err)
		}
		locks = append(locks, l)
	}
	if diff := locks[0].Diff(locks[1]); diff != nil {
		t.Errorf("the locks differ: %+v", diff)
	}
	old, err := lockfile.Read(lockFile(t, "explicit-python-linux-64.txt"), "")
	if err != nil {
		t.Fatal(err)
	}
	now, err := locks[0].For("linux-64")
	if err != nil {
		t.Fatal(err)
	}
	var changed []string
	for _, c := range old.Diff(lockfile.Lock{Platforms: []lockfile.PlatformLock{now}}) {
		changed = append(changed, c.Old.FileName, c.New.FileName)
	}
	if diff := cmp.Diff([]string{
		"pip-23.0-pyhd8ed1ab_0.conda", "pip-23.0.1-pyhd8ed1ab_0.conda", "setuptools-67.1.0-pyhd8ed1ab_0.conda", "setuptools-67.4.0-pyhd8ed1ab_0.conda",
	}, changed); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDiff(t *testing.T) {
	t.Parallel()
	record := func(name, version, sha string) spec.Record {
		file := name + "-" + version + "-0.conda"
		return spec.Record{Name: name, Version: version, FileName: file, URL: "https://h.example/c/linux-64/" + file, SHA256: sha}
	}
	lock := func(all ...spec.Record) lockfile.Lock {
		return lockfile.Lock{Platforms: []lockfile.PlatformLock{{Platform: "linux-64", Packages: all}}}
	}
	mirrored := record("b", "1", "22")
	mirrored.URL = "https://mirror.example/b-1-0.conda"
	old := lock(record("a", "1", ""), record("b", "1", "22"), record("c", "1", "33"), record("d", "1", "44"))
	now := lock(record("e", "1", ""), record("d", "2", "55"), record("c", "1", "99"), mirrored)
	var got []string
	for _, c := range old.Diff(now) {
		text := c.Platform
		for _, r := range []*spec.Record{c.Old, c.New} {
			if r == nil {
				text += " -"
			} else {
				text += " " + r.Name + r.Version
			}
		}
		got = append(got, text)
	}
	if diff := cmp.Diff([]string{"linux-64 a1 -", "linux-64 c1 c1", "linux-64 d1 d2", "linux-64 - e1"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if d := old.Diff(old); d != nil {
		t.Errorf("a lock differs from itself: %+v", d)
	}
}

func TestSorted(t *testing.T) {
	t.Parallel()
	p := lockfile.PlatformLock{Packages: []spec.Record{
		{Name: "app", Depends: []string{"lib >=1", "python", "__glibc >=2.17"}}, {Name: "free"}, {Name: "lib", Depends: []string{"base==1=*_0"}},
		{Name: "pip", Depends: []string{"python"}}, {Name: "python", Depends: []string{"pip", "base"}}, {Name: "base"},
	}}
	var got []string
	for _, r := range p.Sorted() {
		got = append(got, r.Name)
	}
	if diff := cmp.Diff([]string{"base", "lib", "pip", "python", "app", "free"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNoLock(t *testing.T) {
	t.Parallel()
	const pixi = "version: 6\nenvironments:\n  default:\n    channels: []\n    packages:\n      linux-64:\n"
	for _, tc := range []struct{ name, in, want string }{
		{"empty", "", "one YAML document"},
		{"an environment", "dependencies: [a]\n", "the file is no lock"},
		{"a list that is not explicit", "bwa=1\n", "must be a mapping"},
		{"explicit: a specification", "@EXPLICIT\nbwa=1\n", `line 2: "bwa=1" is not the address of a Conda package`},
		{"explicit: a file", "@EXPLICIT\nfile:///a/x-1-0.conda\n", "packages from files and from source are not supported"},
		{"explicit: a path", "@EXPLICIT\n../x-1-0.conda\n", "packages from files and from source are not supported"},
		{"explicit: a login", "@EXPLICIT\nhttps://u:p@h/noarch/x-1-0.conda\n", "without a login"},
		{"explicit: a token", "@EXPLICIT\nhttps://h/t/tk-1/c/noarch/x-1-0.conda\n", "take the token out of it"},
		{"explicit: another kind of file", "@EXPLICIT\nhttps://h/noarch/x-1-0.zip\n", "must end in .conda or .tar.bz2"},
		{"explicit: a name without a build", "@EXPLICIT\nhttps://h/noarch/x-1.conda\n", "name-version-build"},
		{"explicit: a hash that is none", "@EXPLICIT\nhttps://h/noarch/x-1-0.conda#12\n", `line 2: x-1-0.conda: "12" is not a hash of md5`},
		{"explicit: two platforms", "@EXPLICIT\nhttps://h/linux-64/x-1-0.conda\nhttps://h/osx-64/y-1-0.conda\n", "y-1-0.conda is for osx-64, but the lock is for linux-64"},
		{"explicit: another platform", "# platform: win-64\n@EXPLICIT\nhttps://h/linux-64/x-1-0.conda\n", "the lock is for win-64"},
		{"explicit: no platform", "# platform: ../x\n@EXPLICIT\n", `"../x" is no platform`},
		{"explicit: a name twice", "@EXPLICIT\nhttps://h/noarch/x-1-0.conda\nhttps://h/noarch/x-2-0.conda\n", "two packages called x"},
		{"conda-lock: version", "version: 2\nmetadata: {}\npackage: []\n", "only version 1"},
		{"conda-lock: platform", "metadata: {platforms: [linux-64]}\npackage:\n- platform: osx-64\n", `package[0]: platform "osx-64" is not one of`},
		{"conda-lock: manager", "metadata: {platforms: [linux-64]}\npackage:\n- {platform: linux-64, manager: npm}\n", "must be conda or pip"},
		{"conda-lock: another version than its file", "metadata: {platforms: [linux-64]}\npackage:\n- {platform: linux-64, manager: conda, version: 2.10, url: \"https://h/noarch/x-2.1-0.conda\"}\n",
			`version of x-2.1-0.conda is "2.10", but "2.1" in the name of its file`},
		{"pixi: version 3", "version: 3\nenvironments: {}\n", "versions 4 to 7"},
		{"pixi: no default", "version: 6\nenvironments:\n  a: {}\n", `no environment "default"; it has a`},
		{"pixi: nothing to refer to", pixi + "      - conda: https://h/noarch/x-1-0.conda\npackages: []\n", "is listed, but not described"},
		{"pixi: neither", pixi + "      - npm: x\npackages: []\n", "neither a package of conda nor of pypi"},
		{"pixi: size", pixi + "      - conda: https://h/noarch/x-1-0.conda\npackages:\n- conda: https://h/noarch/x-1-0.conda\n  size: -1\n", `size: "-1" is not a number`},
		{"pixi: two platforms of one kind", "version: 7\nplatforms:\n- {name: a, subdir: linux-64}\n- {name: b, subdir: linux-64}\nenvironments:\n  default:\n    packages: {a: [], b: []}\n",
			"two of its platforms are linux-64"},
		{"alias", "version: &x 6\nenvironments: *x\n", "without aliases"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			l, err := lockfile.Read(tc.in, "")
			if e, ok := fault.As(err); !ok || !strings.Contains(e.Public, tc.want) {
				t.Errorf("got %+v, %v; want %q", l, err, tc.want)
			}
		})
	}
}

func TestEnvironmentsOfLocks(t *testing.T) {
	t.Parallel()
	const condaLock = "metadata: {platforms: [linux-64]}\npackage:\n" +
		"- {name: a, version: '1', manager: conda, platform: linux-64, url: 'https://h/noarch/a-1-0.conda', hash: {}}\n" +
		"- {name: b, version: '1', manager: conda, platform: linux-64, category: dev, url: 'https://h/noarch/b-1-0.conda', hash: {}}\n"
	const pixi = "version: 6\nenvironments:\n  default: {packages: {linux-64: [conda: 'https://h/noarch/a-1-0.conda']}}\n" +
		"  dev: {packages: {linux-64: [conda: 'https://h/noarch/b-1-0.conda']}}\n" +
		"packages:\n- conda: https://h/noarch/a-1-0.conda\n- conda: https://h/noarch/b-1-0.conda\n"
	for _, tc := range []struct{ text, environment, want string }{
		{condaLock, "", "a"}, {condaLock, "main", "a"}, {condaLock, "dev", "ab"}, {condaLock, "x", "not found"},
		{pixi, "", "a"}, {pixi, "default", "a"}, {pixi, "dev", "b"}, {pixi, "x", "not found"},
	} {
		got := ""
		l, err := lockfile.Read(tc.text, tc.environment)
		if errors.Is(err, fault.NotFound) {
			got = "not found"
		}
		for _, p := range l.Platforms {
			for _, r := range p.Packages {
				got += r.Name
			}
		}
		if got != tc.want {
			t.Errorf("%q of %q: got %q, %v; want %q", tc.environment, tc.text[:10], got, err, tc.want)
		}
	}
	if _, err := (lockfile.Lock{Platforms: []lockfile.PlatformLock{{Platform: "osx-64"}}}).For("linux-64"); !errors.Is(err, fault.NotFound) || !strings.Contains(err.Error(), "it is for osx-64") {
		t.Error(err)
	}
}
