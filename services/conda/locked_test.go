package conda_test

import (
	"encoding/base64"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"

	"slipway.dev/services/conda/lockfile"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// testLocks has files that conda-lock, pixi and conda wrote.
const testLocks = "lockfile/testdata/locks/"

func testLock(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(testLocks + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func inBody(text, environment string) *condav1.CondaPackages {
	return &condav1.CondaPackages{Environment: base64.StdEncoding.EncodeToString([]byte(text)), EnvironmentName: environment}
}

// startOffline serves the service with a host that has no channels, but has locks at
// /locks/NAME.
func startOffline(t *testing.T) (condav1.CondaServiceClient, string) {
	t.Helper()
	return serve(t, nil, func(w http.ResponseWriter, r *http.Request) {
		name, ok := strings.CutPrefix(r.URL.Path, "/locks/")
		switch {
		case !ok:
			t.Errorf("a lock made the service request %s", r.URL)
			http.NotFound(w, r)
		case name == "long":
			_, _ = w.Write(make([]byte, limits.CondaFile+1))
		case name == "broken":
			w.WriteHeader(http.StatusInternalServerError)
		default:
			http.ServeFile(w, r, testLocks+name)
		}
	})
}

// TestLocksAreUsedAsTheyAre checks that a lock in each format, inline and by address, results in
// exactly its packages, and that nothing is solved and no channel is read.
func TestLocksAreUsedAsTheyAre(t *testing.T) {
	t.Parallel()
	service, at := startOffline(t)
	for _, c := range []struct{ file, environment, platform string }{
		{"explicit-python-linux-64.txt", "", "linux/amd64"},
		{"tests_test-environment-blas-mkl_conda-lock.yml", "", "linux/amd64"},
		{"pixi.lock", "", "linux/amd64"},
		{"pixi.lock", "test", "linux/arm64"},
		{"conda-lock.yml", "", "linux/arm64"},
		{"conda-lock.yml", "test", "linux/amd64"},
		{"v4-python-lock.yml", "default", "linux/amd64"},
	} {
		file, err := lockfile.Read(testLock(t, c.file), c.environment)
		if err != nil {
			t.Fatal(err)
		}
		of, err := file.For(map[string]string{"linux/amd64": "linux-64", "linux/arm64": "linux-aarch64"}[c.platform])
		if err != nil {
			t.Fatal(c.file, err)
		}
		byAddress := &condav1.CondaPackages{Entries: []string{at + "/locks/" + c.file}, EnvironmentName: c.environment}
		for name, p := range map[string]*condav1.CondaPackages{"body": inBody(testLock(t, c.file), c.environment), "address": byAddress} {
			got, err := lockOf(t, service, &condav1.LockQuery{Packages: p, Platforms: []string{c.platform}})
			if err != nil {
				t.Errorf("%s, %s: %v", c.file, name, err)
				continue
			}
			want := map[string]string{}
			for _, r := range of.Packages {
				want[r.URL] = r.SHA256 + r.MD5
			}
			list := got.GetLocks()[0].GetPackages()
			for _, p := range list {
				if hash, ok := want[p.GetUrl()]; !ok || hash != p.GetSha256()+p.GetMd5() {
					t.Errorf("%s, %s: %v is not in the lock", c.file, name, p)
				}
			}
			if len(list) != len(want) || len(list) == 0 {
				t.Errorf("%s, %s: %d packages, want %d", c.file, name, len(list), len(want))
			}
		}
	}
}

// TestLockWithoutSolving checks that newer packages in the channels do not affect a lock,
// and that a lock can be converted to another format.
func TestLockWithoutSolving(t *testing.T) {
	t.Parallel()
	service, _ := startOffline(t)
	got, err := lockOf(t, service, &condav1.LockQuery{Packages: inBody(testLock(t, "pixi.lock"), "test"), Format: "explicit"})
	if err != nil || !strings.HasPrefix(got.GetText(), "# platform: linux-64\n@EXPLICIT\nhttps://channel.example/lab/linux-64/c-ares-") {
		t.Errorf("a pixi.lock as an explicit one is %v, %.200s", err, got.GetText())
	}
	solved, err := service.SolvePackages(t.Context(), &condav1.SolvePackagesRequest{Lock: &condav1.LockQuery{
		Packages: &condav1.CondaPackages{Type: "CONDA", Environment: inBody(testLock(t, "explicit-python-linux-64.txt"), "").GetEnvironment()},
	}})
	if err != nil || len(solved.GetRecords()) != 1 || solved.GetSubdirs()[0] != "linux-64" || solved.GetPrivate() ||
		strings.Join(solved.GetChannelUrls(), " ") != "https://conda.anaconda.org/conda-forge" || strings.Contains(solved.GetRecords()[0], `"noarch":"`) {
		t.Errorf("SolvePackages returned %v, %v", solved, err)
	}
}

// TestLocksThatCannotBeUsed checks that unusable locks result in status 400 with an
// explanation.
func TestLocksThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	service, at := startOffline(t)
	const explicit = "@EXPLICIT\nhttps://conda.anaconda.org/conda-forge/linux-64/a-1-0.conda"
	hash := "#" + strings.Repeat("1", 32)
	address := func(name string) *condav1.CondaPackages {
		return &condav1.CondaPackages{Entries: []string{at + "/locks/" + name}}
	}
	for name, c := range map[string]struct {
		packages *condav1.CondaPackages
		platform string
		kind     error
		why      string
	}{
		"PyPI":                    {inBody(testLock(t, "tests_test-install-with-pip-deps_conda-lock.yml"), ""), "", fault.Invalid, "is a wheel of PyPI, and this server accepts none"},
		"no hash":                 {inBody(explicit, ""), "", fault.Invalid, `no hash of a-1-0.conda`},
		"another platform":        {inBody(explicit+hash, ""), "linux/arm64", fault.Invalid, "the lock is not for linux-aarch64; it is for linux-64"},
		"no environment":          {inBody(testLock(t, "pixi.lock"), "gpu"), "", fault.Invalid, `the lock has no environment "gpu"; it has default, test`},
		"no category":             {inBody(testLock(t, "tests_test-environment-blas-mkl_conda-lock.yml"), "gpu"), "", fault.Invalid, `no packages of the category "gpu"`},
		"an empty lock":           {inBody("@EXPLICIT\n", ""), "", fault.Invalid, "packages.environment: the lock"},
		"not an address":          {inBody("@EXPLICIT\na-1-0.conda\n", ""), "", fault.Invalid, "packages.environment: line 2"},
		"a missing file":          {address("nothing"), "", fault.Invalid, "did not return it (status 404)"},
		"a broken host":           {address("broken"), "", fault.Unavailable, "is unavailable"},
		"a file that is too long": {address("long"), "", fault.Invalid, "it is longer than 1 MiB"},
		"plain http":              {&condav1.CondaPackages{Entries: []string{"http://locks.example.org/a"}}, "", fault.Invalid, "must be reached by https"},
		"a private address":       {&condav1.CondaPackages{Entries: []string{"https://127.0.0.2:1/a"}}, "", fault.Invalid, "not a public address"},
		"a login":                 {&condav1.CondaPackages{Entries: []string{"https://u:p@example.org/a"}}, "", fault.Invalid, "without a login"},
		"no lock":                 {address("README.md"), "", fault.Invalid, "the lock"},
		"a package at plain http": {inBody(strings.Replace(explicit, "https", "http", 1)+hash, ""), "", fault.Invalid, "must be reached by https"},
	} {
		q := &condav1.LockQuery{Packages: c.packages}
		if c.platform != "" {
			q.Platforms = []string{c.platform}
		}
		got, err := lockOf(t, service, q)
		f, ok := fault.As(err)
		if !ok || !errors.Is(err, c.kind) || !strings.Contains(f.Public, c.why) {
			t.Errorf("%s: %v, %v, want %q", name, got, err, c.why)
		}
	}
}
