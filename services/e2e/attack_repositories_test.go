package e2e

import (
	"net/http"
	"strings"
	"testing"

	"slipway.dev/services/internal/testkit"
)

// TestTokensOfRepositories uses tokens of some repositories at every service. The user has logins for
// all of them, and a mirror serves Docker Hub.
func TestTokensOfRepositories(t *testing.T) {
	t.Parallel()
	up, hub := testkit.NewRegistry(t, testkit.Bearer), testkit.NewRegistry(t, testkit.Open)
	mine, other := up.Push(t, "team/tool:1", testkit.Image(t, "amd64", true)), up.Push(t, "other/tool:1", testkit.Image(t, "amd64", true))
	mirrored := hub.Push(t, "library/debian:1", testkit.Image(t, "amd64", true))
	more := settings{"limit_platform": "0", "master_key_file": newMasterKey(t), "registry_mirrors": "docker.io=" + hub.Host}
	eachCopyShape(t, []string{up.Host, hub.Host}, more, func(t *testing.T, p *program) {
		p.platformCall(http.MethodPost, "/credentials", p.token, map[string]any{"credentials": map[string]any{
			"name": "all", "keys": map[string]any{"userName": testkit.User, "password": testkit.Password, "registry": up.Host},
		}})
		tokenOf := func(name string, repositories ...string) []string {
			made := p.platformCall(http.MethodPost, "/tokens", p.token, map[string]any{"name": name, "repositories": repositories})
			return []string{"Authorization", "Bearer " + text(made, "accessKey")}
		}
		full, team, debian := []string{"Authorization", "Bearer " + p.token}, tokenOf("team", up.Host+"/team/*"), tokenOf("debian", "docker.io/debian")
		secret := p.order(map[string]any{"containerImage": other}, full...)
		got := p.order(map[string]any{"containerImage": mine}, team...)
		pull(t, text(got, "targetImage"), "amd64")
		pull(t, text(p.order(map[string]any{"containerImage": "debian:1"}, debian...), "targetImage"), "amd64")
		copied := p.order(frozen(mine, up.Host+"/team/frozen"+testkit.FreePort(t), nil), team...)
		if s := p.finished(t, copied); s["succeeded"] != true {
			t.Errorf("the copy ended as %v\n%s", s, p.logOf(copied))
		}

		const request, inspect = "/v1alpha2/container", "/v1alpha1/inspect"
		for _, c := range []struct {
			what, path string
			body       map[string]any
			header     []string
		}{
			{"another image", request, map[string]any{"containerImage": other}, team},
			{"another image, the old path", "/container-token", map[string]any{"containerImage": other}, team},
			{"an image of Docker Hub", request, map[string]any{"containerImage": "debian:1"}, team},
			{"the mirror by its own name", request, map[string]any{"containerImage": mirrored}, debian},
			{"a name of another image", request, map[string]any{"containerImage": text(secret, "targetImage")}, team},
			{"FROM another image", request, recipe("FROM " + other), team},
			{"a copy of another image", request, frozen(other, up.Host+"/team/x", nil), team},
			{"a copy to another repository", request, frozen(mine, up.Host+"/other/x", nil), team},
			{"inspecting another image", inspect, map[string]any{"containerImage": other}, team},
			{"inspecting a name of another image", inspect, map[string]any{"containerImage": text(secret, "targetImage")}, team},
			{"the files of another image", inspect + "/files?layer=sha256:" + strings.Repeat("0", 64), map[string]any{"containerImage": other}, team},
			{"the packages of another image", inspect + "/packages", map[string]any{"containerImage": other}, team},
		} {
			p.call(http.MethodPost, c.path, c.body, c.header...).lacks(t, c.what, "the access token is not for")
		}
		if r := p.call(http.MethodPost, inspect, map[string]any{"containerImage": mine}, team...); r.status != http.StatusOK {
			t.Errorf("inspecting its image: %d %s", r.status, r.body)
		}
		for _, path := range []string{"/api/credentials", "/api/tokens", "/v1alpha1/queue"} {
			p.call(http.MethodGet, path, nil, team...).lacks(t, path, "repositories")
		}
		list := string(p.call(http.MethodGet, "/v1alpha1/containers", nil, team...).body)
		if !strings.Contains(list, text(got, "requestId")) || strings.Contains(list, text(secret, "requestId")) {
			t.Errorf("the token lists %s", list)
		}
		if all := string(p.call(http.MethodGet, "/v1alpha1/containers", nil, full...).body); !strings.Contains(all, text(got, "requestId")) || !strings.Contains(all, text(secret, "requestId")) {
			t.Errorf("the token with all rights lists %s", all)
		}
		if r := p.call(http.MethodPost, request+"/"+text(secret, "requestId")+"/name", nil, team...); r.status != http.StatusForbidden {
			t.Errorf("a fresh name of a request of another token: %d %s", r.status, r.body)
		}
	})
}
