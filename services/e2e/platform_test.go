package e2e

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// TestPlatformAddresses checks that the platform is served equally at both base URLs, and that
// its own URL serves nothing else.
func TestPlatformAddresses(t *testing.T) {
	t.Parallel()
	eachShape(t, nil, nil, func(t *testing.T, p *program) {
		user := []string{"Authorization", "Bearer " + p.token}
		made := request(t, http.MethodPost, p.platform+"/tokens", map[string]any{"name": "made at the root"}, user...)
		if made.status != http.StatusOK {
			t.Fatalf("creating a token: %d %s", made.status, made.body)
		}
		fresh := []string{"Authorization", "Bearer " + text(made.json(t), "accessKey")}
		for _, base := range []string{p.platform, p.url + "/api"} {
			for path, status := range map[string]int{"/user-info": 200, "/service-info": 200, "/nothing": 403, "/v1alpha1/builds": 403, "/v2/": 403, "/api/user-info": 403} {
				if r := request(t, http.MethodGet, base+path, nil, fresh...); r.status != status || r.header.Get("X-Request-Id") == "" {
					t.Errorf("%s%s: %d %s", base, path, r.status, r.body)
				}
			}
			if r := request(t, http.MethodGet, base+"/user-info", nil); r.status != http.StatusForbidden {
				t.Errorf("%s without a token: %d", base, r.status)
			}
		}
	})
}

// TestPlatformLimit checks that calls are counted by user, for all URLs and tokens together.
func TestPlatformLimit(t *testing.T) {
	t.Parallel()
	eachShape(t, nil, settings{"limit_platform": "100/1m,4/1h"}, func(t *testing.T, p *program) {
		user := []string{"Authorization", "Bearer " + p.token}
		var second []string
		for i := range 5 {
			base := []string{p.platform, p.url + "/api"}[i%2]
			if i == 0 {
				made := request(t, http.MethodPost, base+"/tokens", map[string]any{"name": "another"}, user...)
				second = []string{"Authorization", "Bearer " + text(made.json(t), "accessKey")}
				continue
			}
			r := request(t, http.MethodGet, base+"/user-info", nil, user...)
			if i < 4 && r.status != http.StatusOK {
				t.Errorf("call %d: %d %s", i, r.status, r.body)
			}
			after, err := strconv.Atoi(r.header.Get("Retry-After"))
			if i == 4 && (r.status != http.StatusTooManyRequests || err != nil || after < 1 || r.header.Get("RateLimit-Limit") != "4" || !strings.Contains(string(r.body), `"message"`)) {
				t.Errorf("beyond the limit: %d %v %s", r.status, r.header, r.body)
			}
		}
		if r := request(t, http.MethodGet, p.platform+"/user-info", nil, second...); r.status != http.StatusTooManyRequests {
			t.Errorf("another token of the same user: %d %s", r.status, r.body)
		}
	})
}
