package platform_test

import (
	"net/http"
	"testing"
	"time"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/testkit"
)

// TestForeignRefreshInCookies checks that refreshed tokens are read from cookies, whatever the
// body is.
func TestForeignRefreshInCookies(t *testing.T) {
	t.Parallel()
	for _, answer := range []struct {
		status int
		body   string
	}{
		{http.StatusOK, ""}, {http.StatusNoContent, ""}, {http.StatusOK, "{}"}, {http.StatusOK, "<html>signed in</html>"}, {http.StatusOK, `"OK"`},
	} {
		e := newOtherPlatform(t, january())
		client := e.trusting(t, testkit.SQLite(t), newKeys(t), local)
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
			w.WriteHeader(answer.status)
			_, _ = w.Write([]byte(answer.body))
			return true
		})
		for round := range 3 {
			if _, err := e.authorize(client, issued.GetAccessToken(), issued.GetRefreshToken(), e.ws); err != nil {
				t.Errorf("%v, round %d: %v", answer, round, err)
			}
			e.clock.now = e.clock.now.Add(time.Hour)
		}
	}
}

// TestForeignRefreshIsRefused checks that the error asks the client to sign in again when a
// refresh token is refused.
func TestForeignRefreshIsRefused(t *testing.T) {
	t.Parallel()
	for status, kind := range map[int]error{
		http.StatusBadRequest: fault.Unauthenticated, http.StatusUnauthorized: fault.Unauthenticated, http.StatusForbidden: fault.Unauthenticated,
		http.StatusBadGateway: fault.Unavailable, http.StatusFound: fault.Unavailable,
	} {
		e := newOtherPlatform(t, january())
		client := e.trusting(t, testkit.SQLite(t), newKeys(t), local)
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
		wantError(t, http.StatusText(status), err, kind)
	}
}

// TestForeignUserIsUnknown checks that a token is refused if the platform returns no user for it.
func TestForeignUserIsUnknown(t *testing.T) {
	t.Parallel()
	e := newOtherPlatform(t, january())
	client := e.trusting(t, testkit.SQLite(t), newKeys(t), local)
	e.fail(func(w http.ResponseWriter, r *http.Request) bool {
		_, _ = w.Write([]byte("{}"))
		return true
	})
	_, err := e.authorize(client, e.tokens["launch"], "", 0)
	wantError(t, "/user-info is {}", err, fault.Unauthenticated)
}
