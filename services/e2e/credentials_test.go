package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"slipway.dev/services/internal/testkit"
)

// TestPrivatePullWithCredentialsOfThePlatform stores a login on the platform only, and pulls a
// private image by its issued name.
func TestPrivatePullWithCredentialsOfThePlatform(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Bearer)
	image := up.Push(t, "team/private:1", testkit.Index(t, true, "amd64"))
	p := oneProcess(t, common(t, []string{up.Host}, nil))
	user := []string{"Authorization", "Bearer " + p.token}
	ask := func(header ...string) reply {
		return p.call(http.MethodPost, "/v1alpha2/container", map[string]any{"containerImage": image}, header...)
	}
	if r := ask(user...); r.status != http.StatusBadRequest || !strings.Contains(string(r.body), image) {
		t.Errorf("without a login: %d %s", r.status, r.body)
	}
	// The login with the longest matching path is used.
	for _, c := range []struct{ name, registry, password string }{{"host", up.Host, "wrong"}, {"team", up.Host + "/team", testkit.Password}} {
		r := p.call(http.MethodPost, "/api/credentials", map[string]any{"credentials": map[string]any{
			"name": c.name, "provider": "container-reg",
			"keys": map[string]any{"userName": testkit.User, "password": c.password, "registry": c.registry},
		}}, user...)
		if r.status != http.StatusOK {
			t.Fatalf("storing credentials: %d %s", r.status, r.body)
		}
	}
	if list := p.call(http.MethodGet, "/api/credentials", nil, user...); list.status != http.StatusOK || strings.Contains(string(list.body), testkit.Password) {
		t.Errorf("the list is %d %s", list.status, list.body)
	}
	// The bus invalidates the cached absence of a login.
	var r reply
	if err := within(20*time.Second, func() error {
		if r = ask(user...); r.status != http.StatusOK {
			return fmt.Errorf("with a login: %d %s", r.status, r.body)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	pull(t, text(r.json(t), "targetImage"), "amd64")
	if r := ask(); r.status != http.StatusBadRequest {
		t.Errorf("an anonymous caller got %d %s", r.status, r.body)
	}
	if strings.Contains(p.registry().log(), testkit.Password+`"`) {
		t.Error("the password is in the log")
	}
}
