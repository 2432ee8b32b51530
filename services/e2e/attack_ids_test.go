package e2e

import (
	"net/http"
	"strings"
	"testing"

	"slipway.dev/services/internal/testkit"
)

// TestIDsOpenNothing lets an anonymous caller and another user send the ids of a user's
// requests to all calls that accept a token.
func TestIDsOpenNothing(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	image := up.Push(t, "lib/tool:1", testkit.Image(t, "amd64", true))
	eachShape(t, []string{up.Host}, nil, func(t *testing.T, p *program) {
		owner, other := []string{"Authorization", "Bearer " + p.token}, []string{"Authorization", "Bearer " + p.user(t, "mallory")}
		body := map[string]any{"containerImage": image, "containerConfig": map[string]any{"env": []string{"SECRET=hidden"}, "cmd": []string{"private-command"}}}
		made := p.call(http.MethodPost, "/v1alpha2/container", body, owner...).json(t)
		target, id, token := text(made, "targetImage"), text(made, "requestId"), text(made, "containerToken")
		list := p.call(http.MethodGet, "/v1alpha1/containers", nil, owner...)
		if !strings.Contains(string(list.body), id) || strings.Contains(string(list.body), token) || id != idOf(target) || token != tokenOf(target) {
			t.Fatalf("the list is %s\nafter %v", list.body, made)
		}
		forged := strings.Replace(target, token, id, 1)
		for who, header := range map[string][]string{"a stranger": nil, "another user": other} {
			for _, at := range []string{"/manifests/1", "/blobs/" + digestsOf(t, pull(t, target, "amd64"))[0], "/tags/list"} {
				if r := p.call(http.MethodGet, strings.TrimPrefix(v2(forged), p.url)+at, nil, header...); r.status == http.StatusOK {
					t.Errorf("%s pulled %s by the id: %s", who, at, r.body)
				}
			}
			for _, c := range []struct {
				method, path string
				body         any
			}{
				{http.MethodPost, "/v1alpha2/container/" + id + "/name", nil},
				{http.MethodGet, "/v1alpha2/container/" + id + "/sif", nil},
				{http.MethodDelete, "/v1alpha2/container/" + id, nil},
				{http.MethodDelete, "/container-token/" + id, nil},
				{http.MethodPost, "/v1alpha2/container", map[string]any{"containerImage": forged}},
				{http.MethodPost, "/v1alpha2/container", map[string]any{"containerImage": image, "containerIncludes": []string{forged}}},
				{http.MethodPost, "/v1alpha1/inspect", map[string]any{"containerImage": forged}},
			} {
				if r := p.call(c.method, c.path, c.body, header...); r.status < http.StatusBadRequest {
					t.Errorf("%s: %s %s got %d %s", who, c.method, c.path, r.status, r.body)
				}
			}
			status := p.call(http.MethodGet, "/v1alpha2/container/"+id+"/status", nil, header...)
			if status.status != http.StatusOK || status.json(t)["succeeded"] != true || strings.Contains(string(status.body), token) {
				t.Errorf("%s: the status is %d %s", who, status.status, status.body)
			}
			d := p.call(http.MethodGet, "/v1alpha2/container/"+id, nil, header...)
			for _, secret := range []string{token, "SECRET", "private-command", "userId", "sha256:"} {
				if d.status != http.StatusOK || strings.Contains(string(d.body), secret) {
					t.Errorf("%s got %q in %d %s", who, secret, d.status, d.body)
				}
			}
		}
		pull(t, target, "amd64")
		if d := p.call(http.MethodGet, "/v1alpha2/container/"+id, nil, owner...); !strings.Contains(string(d.body), "private-command") || strings.Contains(string(d.body), "hidden") {
			t.Errorf("the owner got %s", d.body)
		}
		if r := p.call(http.MethodDelete, "/v1alpha2/container/"+id, nil, owner...); r.status != http.StatusNoContent {
			t.Errorf("revoking by the owner: %d %s", r.status, r.body)
		}
	})
}
