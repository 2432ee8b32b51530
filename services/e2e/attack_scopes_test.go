package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"slipway.dev/services/internal/testkit"
)

// A scopedToken describes an access token to create.
type scopedToken struct {
	name      string
	scopes    []string
	workspace int64
}

// create creates the token, authenticated by the token by, and returns the header with the new
// token.
func (s scopedToken) create(p *program, by string) (header []string) {
	p.t.Helper()
	made := p.platformCall(http.MethodPost, "/tokens", by, map[string]any{"name": s.name, "scopes": s.scopes, "workspaceId": s.workspace})
	return []string{"Authorization", "Bearer " + text(made, "accessKey")}
}

// lacks fails the test unless a call is rejected because its token lacks a scope, or, if scope is
// "", because it is for another workspace.
func (r reply) lacks(t *testing.T, what, scope string) {
	t.Helper()
	if r.status != http.StatusForbidden {
		t.Errorf("%s: %d %s", what, r.status, r.body)
		return
	}
	got := r.json(t)
	if text(got, "code") != "auth.scope" || !strings.Contains(text(got, "message"), scope) {
		t.Errorf("%s: %s, want the scope %q", what, r.body, scope)
	}
}

// TestScopedTokens uses tokens with scopes and of one workspace at every service.
func TestScopedTokens(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Bearer)
	image := up.Push(t, "team/private:1", testkit.Image(t, "amd64", true))
	more := settings{"limit_platform": "0", "master_key_file": newMasterKey(t), "conda_channel_alias": "http://127.0.0.1:1"} // with all roles
	eachCopyShape(t, []string{up.Host}, more, func(t *testing.T, p *program) {
		w := newTeam(p, up.Host)
		other := p.platformCall(http.MethodPost, w.org, p.token, map[string]any{"workspace": map[string]any{"name": "other"}})["workspace"].(map[string]any)
		outside := int64(other["id"].(float64))
		p.platformCall(http.MethodPost, fmt.Sprintf("/credentials?workspaceId=%d", outside), p.token, map[string]any{"credentials": map[string]any{
			"name": "team", "keys": map[string]any{"userName": testkit.User, "password": testkit.Password, "registry": up.Host},
		}})
		full := []string{"Authorization", "Bearer " + p.token}
		body := func(workspace int64) map[string]any {
			return map[string]any{"containerImage": image, "platformWorkspaceId": workspace, "containerConfig": map[string]any{"cmd": []string{"private-command"}}}
		}
		made := func(workspace int64, header []string) map[string]any {
			t.Helper()
			r := p.call(http.MethodPost, "/v1alpha2/container", body(workspace), header...)
			if r.status != http.StatusOK {
				t.Fatalf("requesting in workspace %d: %d %s", workspace, r.status, r.body)
			}
			return r.json(t)
		}
		inside, secret := made(w.workspace, full), made(outside, full)
		w.stayInWorkspace(t, inside, secret, outside, body)
		w.needScopes(t, image, text(inside, "requestId"))
		pull(t, text(secret, "targetImage"), "amd64") // pulls need no access token
	})
}

// stayInWorkspace tries to reach a request in another workspace, by its id, with a token of one
// workspace.
func (w *team) stayInWorkspace(t *testing.T, inside, secret map[string]any, outside int64, body func(int64) map[string]any) {
	t.Helper()
	within := scopedToken{"within", nil, w.workspace}.create(w.program, w.token)
	w.call(http.MethodPost, "/v1alpha2/container", body(outside), within...).lacks(t, "a request in another workspace", "one workspace")
	r := w.call(http.MethodPost, "/v1alpha2/container", body(0), within...)
	if r.status != http.StatusOK {
		t.Fatalf("a request without a workspace: %d %s", r.status, r.body)
	}
	own := text(r.json(t), "requestId")
	described := w.call(http.MethodGet, "/v1alpha2/container/"+own, nil, within...).json(t)
	if at, _ := described["workspaceId"].(float64); int64(at) != w.workspace {
		t.Errorf("a request without a workspace is in %v, want %d", described["workspaceId"], w.workspace)
	}
	list := string(w.call(http.MethodGet, "/v1alpha1/containers", nil, within...).body)
	id := text(secret, "requestId")
	if !strings.Contains(list, text(inside, "requestId")) || !strings.Contains(list, own) || strings.Contains(list, id) {
		t.Errorf("the token lists %s", list)
	}
	if all := string(w.call(http.MethodGet, "/v1alpha1/containers", nil, "Authorization", "Bearer "+w.token).body); !strings.Contains(all, id) || !strings.Contains(all, own) {
		t.Errorf("the token with all rights lists %s", all)
	}
	for _, c := range []struct{ method, path string }{
		{http.MethodPost, "/v1alpha2/container/" + id + "/name"}, {http.MethodGet, "/v1alpha2/container/" + id + "/sif"}, {http.MethodDelete, "/v1alpha2/container/" + id},
	} {
		if r := w.call(c.method, c.path, nil, within...); r.status != http.StatusForbidden {
			t.Errorf("%s %s of another workspace: %d %s", c.method, c.path, r.status, r.body)
		}
	}
	if d := w.call(http.MethodGet, "/v1alpha2/container/"+id, nil, within...); strings.Contains(string(d.body), "private-command") || strings.Contains(string(d.body), "userId") {
		t.Errorf("a request of another workspace is described as %s", d.body)
	}
	if r := w.call(http.MethodPost, "/v1alpha2/container/"+text(inside, "requestId")+"/name", nil, within...); r.status != http.StatusOK {
		t.Errorf("a fresh name in its workspace: %d %s", r.status, r.body)
	}
	for _, path := range []string{"/v1alpha1/queue", "/v1alpha2/metrics/builds", "/v1alpha1/conda/channels"} {
		if r := w.call(http.MethodGet, path, nil, within...); r.status != http.StatusForbidden {
			t.Errorf("%s with the administrator's token of one workspace: %d %s", path, r.status, r.body)
		}
	}
}

// needScopes makes calls of every service with tokens that have all scopes but one, and with tokens
// that have only that one.
func (w *team) needScopes(t *testing.T, image, id string) {
	t.Helper()
	post, get := http.MethodPost, http.MethodGet
	packages := map[string]any{"packages": map[string]any{"type": "CONDA", "entries": []string{"samtools"}}}
	for i, c := range []struct {
		method, path string
		body         map[string]any
		scopes       []string // the last one is left out
	}{
		{post, "/v1alpha2/container", map[string]any{"containerImage": image, "platformWorkspaceId": w.workspace}, []string{"request"}},
		{post, "/container-token", map[string]any{"containerImage": image, "towerWorkspaceId": w.workspace}, []string{"request"}},
		{post, "/v1alpha2/container", recipe("FROM scratch"), []string{"request", "build"}},
		{post, "/v1alpha2/container", packages, []string{"request", "build"}},
		{post, "/v1alpha2/container", map[string]any{"containerImage": image, "format": "sif"}, []string{"request", "build"}},
		{post, "/v1alpha2/container", map[string]any{"containerImage": image, "freeze": true, "buildRepository": "quay.io/team/x"}, []string{"request", "freeze"}},
		{post, "/v1alpha2/container", map[string]any{"containerImage": image, "cacheRepository": "quay.io/team/x"}, []string{"request", "freeze"}},
		{post, "/v1alpha1/inspect", map[string]any{"containerImage": image, "platformWorkspaceId": w.workspace}, []string{"pull"}},
		{post, "/v1alpha2/container/" + id + "/name", nil, []string{"pull"}},
		{get, "/v1alpha2/container/" + id, nil, []string{"pull"}},
		{get, "/v1alpha1/containers", nil, []string{"pull"}},
		{get, "/v1alpha1/builds", nil, []string{"build"}},
		{post, "/v1alpha1/conda/lock", packages, []string{"request"}},
		{get, "/v1alpha1/queue", nil, []string{"admin"}},
		{get, "/v1alpha2/metrics/builds", nil, []string{"admin"}},
	} {
		need := c.scopes[len(c.scopes)-1]
		var others []string
		for _, s := range []string{"pull", "request", "build", "freeze", "runs", "credentials:read", "admin"} {
			if s != need {
				others = append(others, s)
			}
		}
		what := fmt.Sprintf("%s %s %v", c.method, c.path, c.body)
		var send any
		if c.body != nil {
			send = c.body
		}
		w.call(c.method, c.path, send, scopedToken{fmt.Sprint("without ", i), others, 0}.create(w.program, w.token)...).lacks(t, what, need)
		r := w.call(c.method, c.path, send, scopedToken{fmt.Sprint("with ", i), c.scopes, 0}.create(w.program, w.token)...)
		if strings.Contains(string(r.body), "auth.scope") {
			t.Errorf("%s with %v: %d %s", what, c.scopes, r.status, r.body)
		}
	}
	if r := w.call(post, "/v1alpha2/container", map[string]any{
		"containerImage": image, "platformWorkspaceId": w.workspace,
	}, scopedToken{"request", []string{"request"}, w.workspace}.create(w.program, w.token)...); r.status != http.StatusOK {
		t.Errorf("a request with its scope: %d %s", r.status, r.body)
	}
}
