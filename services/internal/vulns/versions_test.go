package vulns

import (
	"os/exec"
	"strings"
	"testing"
)

// TestVersions checks each order with versions in ascending order; those in one string are equal.
func TestVersions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		compare func(a, b string) (int, bool)
		want    []string
	}{
		"dpkg":   {compareDpkg, []string{"0", "1.0~~", "1.0~~a", "1.0~", "1.0~rc1", "1.0 1.0-0 0:1.0 01.0", "1.0-0.1", "1.0-1~deb12u1", "1.0-1", "1.0-1ubuntu0.1", "1.0-1+b1", "1.0-1+deb12u1", "1.0-1+deb12u2", "1.0-1+deb12u10", "1.0-2", "1.0a", "1.0+dfsg-1", "1.0.1", "1.9", "1.10", "1:0.1"}},
		"apk":    {compareAPK, []string{"0.9", "1.0_alpha", "1.0_alpha2", "1.0_beta1", "1.0_pre1", "1.0_rc1", "1.0_rc1-r1", "1.0", "1.0-r0", "1.0-r1", "1.0-r10", "1.0~ab12", "1.0_git20200101", "1.0_p1", "1.0_p1-r0", "1.0_p10", "1.0a", "1.0a-r3", "1.0b", "1.0.0", "1.01", "1.09", "1.1", "1.9", "1.10", "10"}},
		"pep440": {comparePEP440, []string{"1.dev0 1.0.dev 1.0-DEV0", "1.0.dev456", "1.0a1", "1.0a2.dev456", "1.0a12.dev456", "1.0a12 1.0-alpha.12", "1.0b1.dev456", "1.0b2", "1.0b2.post345.dev456", "1.0b2.post345", "1.0rc1.dev456", "1.0rc1 1.0c1 v1.0pre1", "1.0 1 1.0.0", "1.0+abc.5", "1.0+abc.7", "1.0+5 1.0+5", "1.0.post456.dev34", "1.0.post456 1.0-456", "1.0.15", "1.1.dev1", "2!0.1"}},
		"semver": {compareSemver, []string{"0.0.0-20180814160000-abcdef", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1", "1.0.0 v1.0.0 1.0.0+build 1.0 1", "1.0.0.99999999999999999999", "1.0.1-0.20200101", "1.0.1"}},
		"R":      {compareR, []string{"0.9", "1.0", "1.0.0 1.0-0 1_0_0", "1.0.1", "1.15-2 1.15_2", "1.100"}},
		"conda":  {compareConda, []string{"1.0.1", "1.1.1a", "1.1.1w", "3.0.0rc1", "3.0.0 3.0", "3.0.11"}},
	} {
		for i, x := range c.want {
			for j, y := range c.want {
				for _, a := range strings.Fields(x) {
					for _, b := range strings.Fields(y) {
						got, ok := c.compare(a, b)
						if want := sign(i - j); !ok || sign(got) != want {
							t.Errorf("%s: %s and %s: %d, %v, want %d", name, a, b, got, ok, want)
						}
					}
				}
			}
		}
	}
	for name, compare := range map[string]func(a, b string) (int, bool){"": compareAPK, "x": compareAPK, "1.": compareAPK, "1_foo": compareAPK, "2004d": comparePEP440, "1..2": compareSemver, "1.x": compareR, "-": compareR, "1 2": compareConda} {
		if _, ok := compare(name, "1"); ok {
			t.Errorf("%q is accepted", name)
		}
	}
}

func sign(n int) int { return min(max(n, -1), 1) }

// TestDpkg compares the order of versions with dpkg itself.
func TestDpkg(t *testing.T) {
	t.Parallel()
	dpkg, err := exec.LookPath("dpkg")
	if err != nil {
		t.Skip("SKIPPED: there is no dpkg to compare with")
	}
	list := []string{"1.0", "1.0-1", "1.0~rc1-1", "1:0.9", "1.0+dfsg-1+deb12u1", "1.0+dfsg-1~deb12u1", "1.0a", "1.0.a", "1.0-1ubuntu0.1", "1.0+b1", "0", "1.0-0"}
	for _, a := range list {
		for _, b := range list {
			op := map[int]string{-1: "lt", 0: "eq", 1: "gt"}
			got, _ := compareDpkg(a, b)
			if err := exec.CommandContext(t.Context(), dpkg, "--compare-versions", a, op[sign(got)], b).Run(); err != nil {
				t.Errorf("%s is not %s %s", a, op[sign(got)], b)
			}
		}
	}
}

// FuzzVersions checks that each order is antisymmetric and that nothing panics.
func FuzzVersions(f *testing.F) {
	f.Add("1.0_rc1-r1", "1:1.0~rc1-1+deb12u1")
	f.Add("1!1.0a1.post2.dev3+x.1", "v1.0.0-alpha.1+b")
	f.Fuzz(func(t *testing.T, a, b string) {
		for _, e := range ecosystems() {
			c, ok := e.compare(a, b)
			d, also := e.compare(b, a)
			if ok != also || sign(c) != -sign(d) {
				t.Errorf("%s: %q and %q: %d, %v and %d, %v", e.name, a, b, c, ok, d, also)
			}
		}
		for _, of := range []string{debian, alpine} {
			upstreamOf(of)(a)
		}
		_, _ = compareConda(a, b)
		_, _ = releaseOf(debian, a)
	})
}
