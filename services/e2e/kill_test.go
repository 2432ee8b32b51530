package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"slipway.dev/services/internal/testkit"
)

// TestDependenciesAreKilled kills one server after the other with kill -9. No data may be lost.
// Independent features must continue to work; the others must return a clear error and recover
// without intervention.
func TestDependenciesAreKilled(t *testing.T) {
	t.Parallel()
	if !testkit.Real() {
		t.Skip("needs servers that can be killed")
	}
	up := testkit.NewRegistry(t, testkit.Open)
	image := up.Push(t, "lib/tool:1", testkit.Index(t, true, "amd64", "arm64"))
	p := processPerRole(t, common(t, []string{up.Host}, nil))
	body := map[string]any{"containerImage": image, "containerConfig": map[string]any{"env": []string{"A=b"}}}
	target := p.submit(body)
	want := everything(t, target)
	pulls := func(when string) {
		t.Helper()
		if got := everything(t, target); got != want {
			t.Errorf("%s the pull returned other bytes", when)
		}
	}
	submits := func(when string, status int) {
		t.Helper()
		if err := within(time.Minute, func() error {
			r := p.call(http.MethodPost, "/v1alpha2/container", body)
			if r.status != status {
				return &unexpectedStatus{r.status}
			}
			if status == http.StatusServiceUnavailable && (r.header.Get("Retry-After") == "" || strings.Contains(string(r.body), "dial")) {
				t.Errorf("%s the error is unclear: %v %s", when, r.header, r.body)
			}
			return nil
		}); err != nil {
			t.Errorf("%s a request got %v, want %d", when, err, status)
		}
	}

	p.postgres.Kill()
	pulls("without PostgreSQL")
	submits("without PostgreSQL", http.StatusServiceUnavailable)
	if err := p.postgres.Start(); err != nil {
		t.Fatal(err)
	}
	submits("with PostgreSQL again", http.StatusOK)
	pulls("with PostgreSQL again")

	p.nats.Kill()
	pulls("without NATS")
	submits("without NATS", http.StatusOK)
	if err := p.nats.Start(); err != nil {
		t.Fatal(err)
	}

	p.process("container-1").kill()
	pulls("without one of two container roles")
	submits("without the container role of the gateway", http.StatusServiceUnavailable)
	p.process("container-1").start()
	submits("with the container role again", http.StatusOK)

	p.process("platform").kill()
	pulls("without the platform")
	p.process("platform").start()
	submits("with the platform again", http.StatusOK)
}

func TestUpstreamUnresponsive(t *testing.T) {
	t.Parallel()
	if !testkit.Real() {
		t.Skip("takes half a minute, the timeout of registries")
	}
	up := testkit.NewRegistry(t, testkit.Open)
	image := up.Push(t, "lib/tool:v1", testkit.Image(t, "amd64", true))
	p := oneProcess(t, common(t, []string{up.Host}, nil))
	target := p.submit(map[string]any{"containerImage": image})
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	up.Intercept(func(http.ResponseWriter, *http.Request) bool { <-release; return true })
	done := make(chan reply, 1)
	go func() { done <- request(t, http.MethodGet, v2(target)+"/manifests/v1", nil) }()
	r := p.call(http.MethodPost, "/v1alpha2/container", map[string]any{"containerImage": strings.Replace(image, ":v1", ":v2", 1)})
	if r.status != http.StatusBadRequest || !strings.Contains(string(r.body), "did not respond in time") {
		t.Errorf("a request got %d %s", r.status, r.body)
	}
	if r := <-done; r.status != http.StatusGatewayTimeout {
		t.Errorf("a pull got %d %s", r.status, r.body)
	}
}
