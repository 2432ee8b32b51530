package e2e

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"slipway.dev/services/internal/testkit"
)

// TestKeptForAnOrganisation keeps an image for an organisation. Only its participants may find the name, which works without a
// login, and must be another one after an operator has deleted it.
func TestKeptForAnOrganisation(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	channel := newArtifacts(t)
	base := up.Push(t, "base/index:1", testkit.Index(t, true, "amd64", "arm64"))
	more := keeping(channel.URL, "users")
	more["operator_accounts_file"] = operatorsFile(t)
	s := common(t, []string{up.Host}, more)
	inEach(t, s, func(t testing.TB, s settings) *program {
		return processPerRole(t, pushingTo(t, testkit.NewRegistry(t, testkit.Basic), s))
	}, func(t *testing.T, p *program) {
		lab, other := p.newOrganisation(t, "lab"), p.newOrganisation(t, "other")
		eve := p.newUser("eve")
		as := func(token string) []string { return []string{"Authorization", "Bearer " + token} }
		order := func(workspace float64) map[string]any {
			r := kept(base, "libcurl")
			r["keepScope"] = "organization"
			if workspace != 0 {
				r["platformWorkspaceId"] = workspace
			}
			return r
		}
		for name, c := range map[string]struct {
			order  map[string]any
			token  string
			status int
		}{
			"no workspace": {order(0), p.token, http.StatusBadRequest}, "no participant": {order(lab), eve, http.StatusUnauthorized},
			"no user":              {order(0), "", http.StatusUnauthorized},
			"a scope without keep": {map[string]any{"containerImage": base, "keepScope": "public"}, p.token, http.StatusBadRequest},
		} {
			var header []string
			if c.token != "" {
				header = as(c.token)
			}
			if r := p.call(http.MethodPost, "/v1alpha2/container", c.order, header...); r.status != c.status {
				t.Errorf("%s: %d %s", name, r.status, r.body)
			}
		}

		answer := p.order(order(lab), as(p.token)...)
		target, id := text(answer, "targetImage"), text(answer, "keptId")
		if want := regexp.MustCompile(`^` + regexp.QuoteMeta(p.host) + `/c/org-[a-z2-7]{26}/libcurl:8\.4\.0$`); !want.MatchString(target) || !strings.Contains(target, "/"+id+"/") {
			t.Fatalf("the answer is %v", answer)
		}
		if s := p.finished(t, answer); s["succeeded"] != true {
			t.Fatalf("the build ended as %v:\n%s", s, p.logOf(answer))
		}
		pull(t, target, "amd64")
		if again := p.order(order(lab), as(p.token)...); text(again, "targetImage") != target {
			t.Errorf("the same request got %v", again)
		}
		if another := p.order(order(other), as(p.token)...); text(another, "targetImage") == target {
			t.Errorf("another organisation got the same name")
		}
		public := p.order(kept(base, "libcurl"), as(p.token)...)
		if len(text(public, "keptId")) != 16 {
			t.Errorf("the public name is %v", public)
		}
		p.keptFor(t, lab, id, as, eve)
		if r := p.call(http.MethodGet, "/v1alpha2/container/"+text(answer, "requestId"), nil); r.status == http.StatusOK && strings.Contains(string(r.body), id) {
			t.Errorf("the public description of the request has the name: %s", r.body)
		}
		for _, proc := range p.procs {
			if strings.Contains(proc.log(), id) {
				t.Errorf("the log of %s has the name", proc.name)
			}
		}

		p.deleteKept(t, id, answer)
		next := p.order(order(lab), as(p.token)...)
		if text(next, "keptId") == id || !strings.HasPrefix(text(next, "keptId"), "org-") {
			t.Errorf("after the deletion, the request got %v", next)
		}
		pull(t, text(next, "targetImage"), "amd64")
	})
}

// keptFor checks who can find an image of an organisation.
func (p *program) keptFor(t *testing.T, workspace float64, id string, as func(string) []string, outsider string) {
	t.Helper()
	path := fmt.Sprintf("/v1alpha1/catalog?workspaceId=%.0f", workspace)
	list := p.call(http.MethodGet, path, nil, as(p.token)...)
	var found struct{ Images []catalogImage }
	mustJSON(t, list.body, &found)
	if len(found.Images) != 1 || found.Images[0].ID != id {
		t.Errorf("the list of the organisation is %d %s", list.status, list.body)
	}
	for name, header := range map[string][]string{"outsider": as(outsider), "anonymous": nil} {
		if r := p.call(http.MethodGet, path, nil, header...); r.status != http.StatusUnauthorized || strings.Contains(string(r.body), id) {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	if public := p.call(http.MethodGet, "/v1alpha1/catalog", nil); strings.Contains(string(public.body), id) {
		t.Errorf("the public list is %s", public.body)
	}
}
