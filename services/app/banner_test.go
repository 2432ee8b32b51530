package app

import (
	"errors"
	"strings"
	"testing"

	"slipway.dev/services/internal/config"
)

// TestSuggestions checks that only commands which work here are suggested.
func TestSuggestions(t *testing.T) {
	t.Parallel()
	here := func(programs ...string) func(string) (string, error) {
		return func(name string) (string, error) {
			for _, p := range programs {
				if p == name {
					return "/bin/" + p, nil
				}
			}
			return "", errors.New("it is not there")
		}
	}
	for _, c := range []struct {
		name        string
		look        func(string) (string, error)
		can         bool
		url         string
		says, says2 string
		not         string
	}{
		{"everything", here("slipway", "docker"), true, "http://localhost:9090", "slipway conda samtools=1.20 --await\n", "docker run", "curl"},
		{"no builds", here("slipway", "podman"), false, "http://localhost:9090", "slipway conda samtools=1.20", "podman run", "slipway build"},
		{"another address", here("slipway"), true, "http://localhost:8080", "slipway image docker.io/library/alpine:3.20 --env GREETING=hello --server http://localhost:8080", "slipway build", "run --rm"},
		{"no client", here(), true, "http://localhost:8080", "curl -s http://localhost:8080/v1alpha2/container", "targetImage", "slipway image"},
	} {
		e := &env{cfg: config.Config{PublicURL: c.url}}
		got := e.suggestions(c.look, c.can)
		if !strings.Contains(got, c.says) || !strings.Contains(got, c.says2) || strings.Contains(got, c.not) {
			t.Errorf("%s:\n%s", c.name, got)
		}
	}
}
