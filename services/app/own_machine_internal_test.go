package app

import (
	"testing"
	"time"

	"slipway.dev/services/internal/config"
	"slipway.dev/services/internal/ratelimit"
)

// TestOwnMachineFree: builds of clients on this machine are not limited only where
// nobody else has clients, and nobody chose a limit.
func TestOwnMachineFree(t *testing.T) {
	t.Parallel()
	usual := ratelimit.Limit{{Count: 25, Window: 24 * time.Hour}}
	for _, c := range []struct {
		name, listens, public string
		roles                 []role
		limit                 ratelimit.Limit
		want                  bool
	}{
		{"tried out", "127.0.0.1:9090", "http://localhost:9090", roles(), usual, true},
		{"another limit", "127.0.0.1:9090", "http://localhost:9090", roles(), ratelimit.Limit{{Count: 3, Window: time.Hour}}, false},
		{"behind a proxy", "127.0.0.1:9090", "https://slipway.example.org", roles(), usual, false},
		{"for everybody", "0.0.0.0:9090", "http://localhost:9090", roles(), usual, false},
		{"some roles", "127.0.0.1:9090", "http://localhost:9090", roles()[:2], usual, false},
	} {
		a := &App{roles: c.roles, cfg: config.Config{HTTPAddr: c.listens, PublicURL: c.public, LimitBuildsAnonymous: c.limit}}
		if got := a.ownMachineFree(); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
