package app

import (
	"testing"

	"slipway.dev/services/internal/config"
)

// TestOwnMachineFree checks that builds of clients on this machine are unlimited only if
// there are no other clients and no limit is configured.
func TestOwnMachineFree(t *testing.T) {
	t.Parallel()
	limit := []string{"limit_builds_anonymous"}
	for _, c := range []struct {
		name, listens, public string
		roles                 []role
		given                 []string
		want                  bool
	}{
		{"default addresses", "127.0.0.1:9090", "http://localhost:9090", roles(), nil, true},
		{"a limit that is set to its default", "127.0.0.1:9090", "http://localhost:9090", roles(), limit, false},
		{"another setting", "127.0.0.1:9090", "http://localhost:9090", roles(), []string{"data_dir"}, true},
		{"behind a proxy", "127.0.0.1:9090", "https://slipway.example.org", roles(), nil, false},
		{"on all addresses", "0.0.0.0:9090", "http://localhost:9090", roles(), nil, false},
		{"some roles", "127.0.0.1:9090", "http://localhost:9090", roles()[:2], nil, false},
	} {
		cfg := config.Config{HTTPAddr: c.listens, PublicURL: c.public, Given: c.given}
		e := &env{roles: c.roles, cfg: cfg, live: newLive(cfg)}
		if got := e.ownMachineFree(); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
