package e2e

import (
	"net/http"
	"strings"
	"testing"

	"slipway.dev/services/internal/testkit"
)

// TestServiceLoginIsOnlyUsedForOwnImages checks that builds of anonymous callers and users can
// neither read nor write repositories to which only the service's own login has access.
func TestServiceLoginIsOnlyUsedForOwnImages(t *testing.T) {
	t.Parallel()
	needBuilds(t)
	for name, auth := range map[string]testkit.Auth{"password": testkit.Basic, "token": testkit.Bearer} {
		t.Run(name, func(t *testing.T) {
			own, open := testkit.NewRegistry(t, auth), testkit.NewRegistry(t, testkit.Open)
			s := common(t, []string{own.Host, open.Host}, settings{"build_repository": own.Host + "/slipway/builds"})
			s["registry_auth_file"] = dockerConfig(t, map[string]string{own.Host: testkit.User + ":" + testkit.Password})
			p := oneProcess(t, s)
			base, secret := open.Push(t, "base/busybox:1", busybox(t, true)), own.Push(t, "prod/secret:1", busybox(t, true))
			other := strings.Replace(secret, "127.0.0.1", "localhost", 1)
			callers := map[string][]string{"a stranger": nil, "a user": {"Authorization", "Bearer " + p.user(t, "eve")}}
			for who, header := range callers {
				if got := p.finished(t, p.order(recipe("FROM "+base, "RUN echo "+strings.ReplaceAll(who, " ", "")+" > /who"), header...)); got["succeeded"] != true {
					t.Fatalf("%s cannot build: %v", who, got)
				}
				for what, instruction := range map[string]string{
					"ONBUILD COPY":  "COPY --from=" + secret + " /bin/busybox /stolen",
					"ONBUILD mount": "RUN --mount=type=bind,from=" + secret + ",target=/x cp /x/bin/busybox /stolen",
					"another name":  "COPY --from=" + other + " /bin/busybox /stolen",
				} {
					trap := open.Push(t, "base/trap:1", onBuild(t, busybox(t, true), instruction))
					if got := p.finished(t, p.order(recipe("FROM "+trap), header...)); got["succeeded"] != false {
						t.Errorf("%s, %s: the build ended as %v", who, what, got)
					}
				}
				for what, body := range map[string]map[string]any{
					"FROM":        recipe("FROM " + secret),
					"COPY --from": recipe("FROM "+base, "COPY --from="+secret+" /bin/busybox /stolen"),
					"an image":    {"containerImage": secret},
				} {
					if r := p.call(http.MethodPost, "/v1alpha2/container", body, header...); r.status != http.StatusBadRequest {
						t.Errorf("%s, %s got %d %s", who, what, r.status, r.body)
					}
				}
				for _, host := range spellings(own.Host) {
					body := recipe("FROM " + base)
					body["cacheRepository"] = host + "/prod/app"
					if r := p.call(http.MethodPost, "/v1alpha2/container", body, header...); r.status != http.StatusBadRequest || !strings.Contains(string(r.body), "cacheRepository") {
						t.Errorf("%s, a cache at %s got %d %s", who, host, r.status, r.body)
					}
				}
			}
			for _, request := range own.Requests() {
				if strings.Contains(request, "/prod/app/") {
					t.Errorf("the registry got %s", request)
				}
			}
		})
	}
}

// spellings returns equivalent names of one registry on this machine.
func spellings(host string) []string {
	_, port, _ := strings.Cut(host, ":")
	var out []string
	for _, name := range []string{"127.0.0.1", "localhost", "LOCALHOST", "[::1]", "127.0.0.2", "0.0.0.0", "127.1", "2130706433", "a.localhost"} {
		out = append(out, name+":"+port)
	}
	return append(out, "127.0.0.1:0"+port)
}

// TestBuildsCannotUseStore uses the embedded image store in all places where a build can name
// a registry.
func TestBuildsCannotUseStore(t *testing.T) {
	t.Parallel()
	needBuilds(t)
	open := testkit.NewRegistry(t, testkit.Open)
	store := "127.0.0.1:" + testkit.FreePort(t)
	p := oneProcess(t, common(t, []string{open.Host}, settings{"store_addr": store}))
	base := open.Push(t, "base/busybox:1", busybox(t, true))
	victim := p.order(recipe("FROM "+base, "RUN echo victim > /victim"))
	if got := p.finished(t, victim); got["succeeded"] != true {
		t.Fatalf("the build ended as %v", got)
	}
	record := p.call(http.MethodGet, "/v1alpha1/builds/"+text(victim, "buildId"), nil).json(t)
	image := p.stored(text(record, "targetImage"))
	if !strings.HasPrefix(image, store+"/builds:") {
		t.Fatalf("the image is %s", image)
	}
	for _, host := range spellings(store) {
		named := strings.Replace(image, store, host, 1)
		trap := open.Push(t, "base/trap:1", onBuild(t, busybox(t, true), "COPY --from="+named+" /victim /stolen"))
		if got := p.finished(t, p.order(recipe("FROM "+trap, "# "+host))); got["succeeded"] != false {
			t.Errorf("ONBUILD COPY --from=%s ended as %v", named, got)
		}
		body := recipe("FROM "+base, "# "+host)
		body["cacheRepository"] = host + "/elsewhere"
		for what, ask := range map[string]map[string]any{"FROM": recipe("FROM " + named), "a cache": body, "an image": {"containerImage": named}} {
			if r := p.call(http.MethodPost, "/v1alpha2/container", ask); r.status != http.StatusBadRequest {
				t.Errorf("%s, %s got %d %s", host, what, r.status, r.body)
			}
		}
	}
}

// TestLoginAppliesToItsPathOnly stores a login for a path of a registry, and builds from this
// path and from another one.
func TestLoginAppliesToItsPathOnly(t *testing.T) {
	t.Parallel()
	needBuilds(t)
	private, open := testkit.NewRegistry(t, testkit.Basic), testkit.NewRegistry(t, testkit.Open)
	logins := dockerConfig(t, map[string]string{private.Host + "/team": testkit.User + ":" + testkit.Password})
	p := oneProcess(t, common(t, []string{private.Host, open.Host}, settings{"admin_registry_auth_file": logins}))
	user := []string{"Authorization", "Bearer " + p.token}
	mine, theirs := private.Push(t, "team/base:1", busybox(t, true)), private.Push(t, "other/base:1", busybox(t, true))
	if got := p.finished(t, p.order(recipe("FROM "+mine, "RUN true"), user...)); got["succeeded"] != true {
		t.Errorf("from its own path the build ended as %v", got)
	}
	if r := p.call(http.MethodPost, "/v1alpha2/container", recipe("FROM "+theirs), user...); r.status != http.StatusBadRequest {
		t.Errorf("FROM another path got %d %s", r.status, r.body)
	}
	for what, image := range map[string]string{"another path": theirs, "a path that only the base names": private.Push(t, "team/more:1", busybox(t, true))} {
		trap := open.Push(t, "base/trap:1", onBuild(t, busybox(t, true), "COPY --from="+image+" /bin/busybox /stolen"))
		if got := p.finished(t, p.order(recipe("FROM "+trap, "COPY --from="+mine+" /bin/busybox /mine"), user...)); got["succeeded"] != false {
			t.Errorf("ONBUILD COPY --from %s ended as %v", what, got)
		}
	}
}
