package conda_test

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"

	"slipway.dev/services/internal/fault"
)

// updatable is the repodata of a channel in which an update of tool requires another version
// of lib, but not of base.
const updatable = `{"packages.conda":{
 "base-1-0.conda":{"name":"base","version":"1","build":"0","md5":"00000000000000000000000000000001","license":"MIT"},
 "base-2-0.conda":{"name":"base","version":"2","build":"0","md5":"00000000000000000000000000000002"},
 "lib-1-0.conda":{"name":"lib","version":"1","build":"0","depends":["base"],"md5":"00000000000000000000000000000003","license":"GPL-2.0-or-later WITH Classpath-exception-2.0"},
 "lib-2-0.conda":{"name":"lib","version":"2","build":"0","depends":["base"],"constrains":["base <3"],"md5":"00000000000000000000000000000004","license":"Home made"},
 "tool-1-0.conda":{"name":"tool","version":"1","build":"0","depends":["lib <2","__glibc >=2.17"],"md5":"00000000000000000000000000000005","license":"MIT"},
 "tool-2-0.conda":{"name":"tool","version":"2","build":"0","depends":["lib >=2","base"],"md5":"00000000000000000000000000000006","license":"MIT"},
 "more-1-0.conda":{"name":"more","version":"1","build":"0","md5":"00000000000000000000000000000007"}
}}`

// updatableLock returns a lock of the oldest packages in updatable.
func updatableLock(at string) string {
	out := "# platform: linux-64\n@EXPLICIT\n"
	for i, f := range []string{"base-1-0", "lib-1-0", "tool-1-0"} {
		out += at + "/lab/linux-64/" + f + ".conda#0000000000000000000000000000000" + string("135"[i]) + "\n"
	}
	return out
}

func startUpdatable(t *testing.T) (condav1.CondaServiceClient, string) {
	t.Helper()
	return serve(t, nil, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/lab/linux-64/repodata.json" {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, updatable)
	})
}

// TestLockFrom checks that packages of a lock only change if necessary.
func TestLockFrom(t *testing.T) {
	t.Parallel()
	service, at := startUpdatable(t)
	from := lockFile(updatableLock(at), "")
	for name, c := range map[string]struct {
		packages *condav1.CondaPackages
		want     string
		changes  int
	}{
		"a package and its dependency":         {&condav1.CondaPackages{Entries: []string{"tool"}}, "base=1 lib=2 tool=2", 2},
		"a dependency":                         {&condav1.CondaPackages{Entries: []string{"base"}}, "base=2 lib=1 tool=1", 1},
		"a new package":                        {&condav1.CondaPackages{Entries: []string{"more"}}, "base=1 lib=1 more=1 tool=1", 1},
		"a bound":                              {&condav1.CondaPackages{Entries: []string{"tool=1"}}, "base=1 lib=1 tool=1", 0},
		"a channel":                            {entries("lab", "tool"), "base=1 lib=2 tool=2", 2},
		"an environment file":                  {inBody("dependencies: [tool]\n", ""), "base=1 lib=1 tool=1", 0},
		"only packages of an environment file": {inBody("dependencies: [lib]\n", ""), "base=1 lib=1", 1},
		"a version in an environment file":     {inBody("dependencies: [tool=2]\n", ""), "base=1 lib=2 tool=2", 2},
	} {
		got, err := lockOf(t, service, &condav1.LockQuery{Packages: c.packages, From: from})
		if err != nil || got.GetLocks() == nil {
			t.Errorf("%s: %v, %v", name, got, err)
			continue
		}
		packages := strings.Fields(chosen(got))
		slices.Sort(packages)
		if text := strings.Join(packages, " "); text != c.want || len(got.GetLocks()[0].GetChanges()) != c.changes {
			t.Errorf("%s: updated to %s, want %s; changes %v", name, text, c.want, got.GetLocks()[0].GetChanges())
		}
	}
	got, err := lockOf(t, service, &condav1.LockQuery{Packages: &condav1.CondaPackages{Entries: []string{"tool"}}, From: from, Format: "explicit"})
	if err != nil || strings.Count(got.GetText(), at+"/lab/linux-64/") != 3 {
		t.Errorf("as text: %v, %v", got, err)
	}
	got, err = lockOf(t, service, &condav1.LockQuery{Packages: &condav1.CondaPackages{Entries: []string{"tool=3"}}, From: from})
	if err != nil || !strings.Contains(got.GetMessage(), "no tool fits tool 3.*: the newest is 2") {
		t.Errorf("an impossible update: %v, %v", got, err)
	}
	lost := lockFile(updatableLock(at)+at+"/lab/linux-64/more-0-0.conda#"+strings.Repeat("9", 32)+"\n", "")
	got, err = lockOf(t, service, &condav1.LockQuery{Packages: &condav1.CondaPackages{Entries: []string{"base"}}, From: lost})
	if err != nil || !strings.Contains(chosen(got), "more=1") || !strings.Contains(strings.Join(got.GetNotes(), " "), "more could not be kept") {
		t.Errorf("a package that the channel no longer has: %v, %v", got, err)
	}
}

func TestLockFromRefuses(t *testing.T) {
	t.Parallel()
	service, at := startUpdatable(t)
	tool := &condav1.CondaPackages{Entries: []string{"tool"}}
	from := updatableLock(at)
	for name, c := range map[string]struct {
		q   *condav1.LockQuery
		why string
	}{
		"no lock":                   {&condav1.LockQuery{Packages: tool, From: lockFile("dependencies: [a]\n", "")}, "from.lock: the file is no lock"},
		"two locks":                 {&condav1.LockQuery{Packages: inBody(from, ""), From: lockFile(from, "")}, "packages is a lock"},
		"nothing to update":         {&condav1.LockQuery{Packages: &condav1.CondaPackages{}, From: lockFile(from, "")}, "packages.entries is missing"},
		"another platform":          {&condav1.LockQuery{Packages: tool, From: lockFile(from, ""), Platforms: []string{"linux/arm64"}}, "from.lock: the lock is not for linux-aarch64"},
		"a platform without images": {&condav1.LockQuery{Packages: tool, From: lockFile(strings.ReplaceAll(from, "linux-64", "osx-64"), "")}, "the lock has the platform osx-64"},
		"PyPI":                      {&condav1.LockQuery{Packages: tool, Platforms: []string{"linux/amd64"}, From: lockFile(testLock(t, "tests_test-install-with-pip-deps_conda-lock.yml"), "")}, "PyPI"},
		"two platforms, one list": {&condav1.LockQuery{
			Packages: tool, Format: "explicit", From: lockFile(testLock(t, "pixi.lock"), ""),
		}, "An explicit lock is for one platform"},
	} {
		got, err := lockOf(t, service, c.q)
		f, ok := fault.As(err)
		if !ok || !errors.Is(err, fault.Invalid) || !strings.Contains(f.Public, c.why) {
			t.Errorf("%s: %v, %v, want %q", name, got, err, c.why)
		}
	}
}

// why returns the chains of a package as text.
func why(r *condav1.PackageReasons) (out []string) {
	for _, c := range r.GetChains() {
		var steps []string
		for _, s := range c.GetSteps() {
			steps = append(steps, strings.TrimSpace(s.GetPackage()+" "+s.GetVersion()+" ")+"→"+s.GetSpec())
		}
		out = append(out, strings.Join(steps, ", "))
	}
	return out
}

func TestWhy(t *testing.T) {
	t.Parallel()
	service, at := startUpdatable(t)
	ask := func(name string, q *condav1.LockQuery) (*condav1.ExplainPackageResponse, error) {
		q.Packages.Type = "CONDA"
		return service.ExplainPackage(t.Context(), &condav1.ExplainPackageRequest{Query: &condav1.PackageQuery{Lock: q, Package: name}})
	}
	for name, c := range map[string]struct {
		of       string
		packages *condav1.CondaPackages
		want     []string
	}{
		"two ways":           {"base", entries("lab", "tool"), []string{"→tool, tool 2→base", "→tool, tool 2→lib >=2, lib 2→base"}},
		"what was asked for": {"tool", entries("lab", "tool=1"), []string{"→tool 1.*"}},
		"both":               {"lib", entries("lab", "tool", "lib"), []string{"→lib", "→tool, tool 2→lib >=2"}},
		"the machine":        {"__glibc", entries("lab", "tool=1"), []string{"→tool 1.*, tool 1→__glibc >=2.17"}},
		"not in it":          {"more", entries("lab", "tool"), nil},
		"a lock":             {"base", inBody(updatableLock(at), ""), []string{"→tool, tool 1→lib <2, lib 1→base"}},
	} {
		got, err := ask(c.of, &condav1.LockQuery{Packages: c.packages})
		if err != nil || len(got.GetPlatforms()) != 1 || !slices.Equal(why(got.GetPlatforms()[0]), c.want) || (got.GetPlatforms()[0].GetPackage() == nil) != (c.want == nil) {
			t.Errorf("%s: %q, %v, want %q", name, why(got.GetPlatforms()[0]), err, c.want)
		}
	}
	got, err := ask("base", &condav1.LockQuery{Packages: entries("lab", "tool")})
	if err != nil || got.GetPlatforms()[0].GetDependents() != 2 || got.GetPlatforms()[0].GetConstraints()[0].GetSpec() != "base <3" {
		t.Errorf("dependents and constraints: %v, %v", got, err)
	}
	for text, q := range map[string]*condav1.LockQuery{
		"package must be":              {Packages: entries("lab", "tool")},
		"There is no such environment": {Packages: entries("lab", "tool=1", "lib=2")},
		"format must be absent":        {Packages: entries("lab", "tool"), Format: "explicit"},
	} {
		name := "base"
		if text == "package must be" {
			name = "base >2"
		}
		_, err := ask(name, q)
		if f, ok := fault.As(err); !ok || !strings.HasPrefix(f.Public, text) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := ask("base", &condav1.LockQuery{Packages: inBody(strings.ReplaceAll(updatableLock(at), "base-1-0", "base-0-0"), "")}); err == nil || !strings.Contains(err.Error(), "no longer have base") {
		t.Errorf("a lock that cannot be completed: %v", err)
	}
}

func TestLicenses(t *testing.T) {
	t.Parallel()
	service, at := startUpdatable(t)
	for name, c := range map[string]struct {
		packages *condav1.CondaPackages
		want     string
	}{
		"a request": {entries("lab", "tool", "more"), "Home made false lib MIT true tool unknown base more"},
		"a lock":    {inBody(updatableLock(at), ""), "GPL-2.0-or-later WITH Classpath-exception-2.0 true lib MIT true base tool unknown"},
	} {
		c.packages.Type = "CONDA"
		got, err := service.ListLicenses(t.Context(), &condav1.ListLicensesRequest{Lock: &condav1.LockQuery{Packages: c.packages}})
		var words []string
		for _, l := range got.GetPlatforms()[0].GetLicenses() {
			words = append(words, l.GetLicense(), map[bool]string{true: "true", false: "false"}[l.GetSpdx()])
			for _, p := range l.GetPackages() {
				words = append(words, p.GetName())
			}
		}
		words = append(append(words, "unknown"), got.GetPlatforms()[0].GetUnknown()...)
		if text := strings.Join(words, " "); err != nil || text != c.want {
			t.Errorf("%s: %s, %v, want %s", name, text, err, c.want)
		}
	}
	withFormat := &condav1.LockQuery{Packages: entries("lab", "tool"), Format: "pixi"}
	if _, err := service.ListLicenses(t.Context(), &condav1.ListLicensesRequest{Lock: withFormat}); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "format must be absent") {
		t.Errorf("with a format: %v", err)
	}
}
