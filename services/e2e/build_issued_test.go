package e2e

import (
	"net/http"
	"strings"
	"testing"

	"slipway.dev/services/internal/testkit"
)

// TestBuildFromABuiltName builds an image, then uses its issued name as the base of other
// builds, both in the service's shared repository and in a user's own repository.
func TestBuildFromABuiltName(t *testing.T) {
	t.Parallel()
	up, private := testkit.NewRegistry(t, testkit.Open), testkit.NewRegistry(t, testkit.Basic)
	more := settings{"admin_registry_auth_file": dockerConfig(t, map[string]string{private.Host: testkit.User + ":" + testkit.Password})}
	eachBuildShape(t, []string{up.Host, private.Host}, more, func(t *testing.T, p *program) {
		base := up.Push(t, "base/busybox:1", busybox(t, true))
		made := func(body map[string]any, header ...string) (name string) {
			t.Helper()
			answer := p.order(body, header...)
			if s := p.finished(t, answer); s["succeeded"] != true {
				t.Fatalf("the build ended as %v\n%s", s, p.logOf(answer))
			}
			return text(answer, "targetImage")
		}
		first := made(recipe("FROM "+base, "RUN echo of the first > /first.txt"))
		second := made(recipe("FROM "+first, "RUN cat /first.txt | tr a-z A-Z > /second.txt"))
		in := files(t, pull(t, second, "amd64"))
		if in["first.txt"] != "of the first\n" || in["second.txt"] != "OF THE FIRST\n" {
			t.Errorf("the image contains %q and %q", in["first.txt"], in["second.txt"])
		}
		copied := made(recipe("FROM "+base, "COPY --from="+first+" /first.txt /copied.txt"))
		if got := files(t, pull(t, copied, "amd64"))["copied.txt"]; got != "of the first\n" {
			t.Errorf("the copied file contains %q", got)
		}
		user := []string{"Authorization", "Bearer " + p.token}
		secret := private.Push(t, "team/base:1", busybox(t, true))
		own := made(recipe("FROM "+secret, "COPY --from="+first+" /first.txt /copied.txt"), user...)
		again := made(recipe("FROM "+own, "RUN cp /copied.txt /again.txt"), user...)
		if got := files(t, pull(t, again, "amd64"))["again.txt"]; got != "of the first\n" {
			t.Errorf("the user's second image contains %q", got)
		}
		if r := p.call(http.MethodPost, "/v1alpha2/container", recipe("FROM "+own)); r.status != http.StatusBadRequest {
			t.Errorf("a build on a user's image by another caller got %d %s", r.status, r.body)
		}

		// An ONBUILD trigger of a base image must not reach other images of the service.
		inner := p.stored(text(p.call(http.MethodGet, "/v1alpha1/builds/"+text(p.order(recipe("FROM "+base, "RUN echo of the first > /first.txt")), "buildId"), nil).json(t), "targetImage"))
		trap := up.Push(t, "base/trap:1", onBuild(t, busybox(t, true), "COPY --from="+inner+" /first.txt /stolen.txt"))
		answer := p.order(recipe("FROM "+first+" AS given", "FROM "+trap, "COPY --from=given /first.txt /mine.txt"))
		if s := p.finished(t, answer); s["succeeded"] == true || !strings.Contains(text(s, "message"), "belongs to the build service") {
			t.Errorf("an image that the request did not name: %v", s)
		}
	})
}
