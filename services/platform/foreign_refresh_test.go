package platform_test

import (
	"net/http"
	"testing"
	"time"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/testkit"
)

// TestForeignRefreshInCookies is a platform that answers a refresh with cookies and an
// empty body.
func TestForeignRefreshInCookies(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusOK, http.StatusNoContent} {
		e := newElsewhere(t, january())
		client := e.believing(t, testkit.SQLite(t), newKeys(t), local)
		code := e.code("launch")
		issued := must(e.issue(func(r *platformv1.IssueTokensRequest) { r.Code = code }))(t)
		e.fail(func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/oauth/access_token" {
				return false
			}
			again, err := e.client.IssueTokens(r.Context(), &platformv1.IssueTokensRequest{GrantType: "refresh_token", RefreshToken: r.FormValue("refresh_token")})
			if err != nil {
				w.WriteHeader(http.StatusForbidden)
				return true
			}
			http.SetCookie(w, &http.Cookie{Name: "JWT", Value: again.GetAccessToken(), HttpOnly: true})
			http.SetCookie(w, &http.Cookie{Name: "JWT_REFRESH_TOKEN", Value: again.GetRefreshToken(), HttpOnly: true})
			w.WriteHeader(status)
			return true
		})
		for round := range 3 {
			if _, err := e.authorize(client, issued.GetAccessToken(), issued.GetRefreshToken(), e.ws); err != nil {
				t.Errorf("%d, round %d: %v", status, round, err)
			}
			e.clock.now = e.clock.now.Add(time.Hour)
		}
	}
}

// TestForeignRefreshIsRefused: the client must sign in anew, and not try again.
func TestForeignRefreshIsRefused(t *testing.T) {
	t.Parallel()
	for status, kind := range map[int]error{
		http.StatusBadRequest: fault.Unauthenticated, http.StatusUnauthorized: fault.Unauthenticated, http.StatusForbidden: fault.Unauthenticated,
		http.StatusBadGateway: fault.Unavailable, http.StatusFound: fault.Unavailable,
	} {
		e := newElsewhere(t, january())
		client := e.believing(t, testkit.SQLite(t), newKeys(t), local)
		code := e.code("launch")
		issued := must(e.issue(func(r *platformv1.IssueTokensRequest) { r.Code = code }))(t)
		e.fail(func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/oauth/access_token" {
				w.WriteHeader(status)
				_, _ = w.Write([]byte(`{"error":"invalid_grant"}`))
				return true
			}
			return false
		})
		e.clock.now = e.clock.now.Add(2 * time.Hour)
		_, err := e.authorize(client, issued.GetAccessToken(), issued.GetRefreshToken(), e.ws)
		wants(t, http.StatusText(status), err, kind)
	}
}
