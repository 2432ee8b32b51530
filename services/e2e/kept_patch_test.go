package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"slipway.dev/services/internal/testkit"
)

// TestPatchOfKept patches kept images: by the id of a request, and by the name, which any user may do. The patched images
// must be kept for the same users. The commands that take the id of a request must also take the name of a kept image.
func TestPatchOfKept(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	base := up.Push(t, "base/index:1", testkit.Index(t, true, "amd64", "arm64"))
	inEach(t, common(t, []string{up.Host}, keeping(patchedChannel(t, 1), "users")), func(t testing.TB, s settings) *program {
		return processPerRole(t, pushingTo(t, testkit.NewRegistry(t, testkit.Basic), s))
	}, func(t *testing.T, p *program) {
		lab := p.newOrganisation(t, "lab")
		eve := p.newUser("eve")
		as := func(token string) []string { return []string{"Authorization", "Bearer " + token} }
		keep := func(more map[string]any) map[string]any {
			t.Helper()
			order := kept(base, "tool-0", "certs=1.0", "ssl=3.0.13")
			for k, v := range more {
				order[k] = v
			}
			a := p.order(order, as(p.token)...)
			if s := p.finished(t, a); s["succeeded"] != true {
				t.Fatalf("the build ended as %v:\n%s", s, p.logOf(a))
			}
			return a
		}
		public := keep(map[string]any{"containerPlatform": "linux/amd64,linux/arm64"})
		ours := keep(map[string]any{"keepScope": "organization", "platformWorkspaceId": lab})
		target, id := text(public, "targetImage"), text(public, "keptId")

		p.change(t, `UPDATE container_requests SET expires_at = created_at`)
		if got := p.outdated(t, "", "3.0.14", p.token); !slices.Contains(got, text(public, "requestId")) || !slices.Contains(got, text(ours, "requestId")) {
			t.Errorf("outdated are %v", got)
		}

		patch := func(image, token string) map[string]any {
			t.Helper()
			r := p.patch(map[string]any{"image": image, "packages": []string{"ssl>=3.0.14"}}, as(token)...)
			if r.status != http.StatusOK {
				t.Fatalf("the patch of %s is %d %s", image, r.status, r.body)
			}
			made := r.json(t)
			if s := p.finished(t, made); s["succeeded"] != true {
				t.Fatalf("the build ended as %v:\n%s", s, p.logOf(made))
			}
			return made
		}
		byName := patch(target, eve)
		now := text(byName, "targetImage")
		if !strings.HasPrefix(now, p.host+"/c/") || now == target || text(byName, "patchedFrom") != id || byName["expiration"] != nil {
			t.Fatalf("the patch by name is %v", byName)
		}
		if in := files(t, pull(t, now, "arm64")); in["opt/conda/share/ssl"] != "ssl 3.0.14 linux-aarch64" || in["opt/conda/share/certs"] != "certs 1.0 linux-aarch64" {
			t.Errorf("the patched image has %q", in)
		}
		if again := patch(id, p.token); text(again, "targetImage") != now {
			t.Errorf("the same patch is %v", again)
		}
		if made := patch(text(ours, "requestId"), p.token); !strings.HasPrefix(text(made, "targetImage"), p.host+"/c/org-") || text(made, "targetImage") == text(ours, "targetImage") {
			t.Errorf("the patch for the organisation is %v", made)
		}
		for name, c := range map[string]struct {
			image  string
			header []string
			status int
		}{
			"without a user":              {target, nil, http.StatusUnauthorized},
			"of an organisation, by name": {text(ours, "targetImage"), as(p.token), http.StatusBadRequest},
			"unknown":                     {strings.Replace(target, id, strings.Repeat("0", 16), 1), as(p.token), http.StatusNotFound},
		} {
			if r := p.patch(map[string]any{"image": c.image, "packages": []string{"ssl>=3.0.14"}}, c.header...); r.status != c.status {
				t.Errorf("a patch %s is %d %s", name, r.status, r.body)
			}
		}
		p.takesKeptNames(t, target, id, text(ours, "targetImage"))
	})
}

// takesKeptNames tries the commands that take the id of a request.
func (p *program) takesKeptNames(t *testing.T, target, id, secret string) {
	t.Helper()
	for args, want := range map[string]string{
		"status " + target:                     "DONE",
		"status " + id:                         "DONE",
		"status " + secret:                     "DONE",
		"get " + target:                        target,
		"get " + secret:                        secret,
		"describe " + target:                   id,
		"logs " + target:                       "linux/arm64: sha256:",
		"lock --format pixi --build " + target: "ssl-3.0.13",
		"lock diff " + id + " " + id:           "",
		"builds show " + target:                id + "_",
		"open --no-browser " + target:          "/c/" + id,
	} {
		out, errs, err := p.slipway(strings.Fields(args)...)
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("slipway %s: %v\n%s%s", args, err, out, errs)
		}
	}
}
