package platform_test

import (
	"testing"
	"time"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// TestSweep checks that audit events are deleted after their retention, and pairings and
// sign-ins after their expiry.
func TestSweep(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		c := &clock{time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)}
		d := deps(t, db)
		d.Now, d.AuditRetention, d.OperatorAccounts = c.Now, 365*24*time.Hour, operatorsFile(t)
		w := newWorldWith(t, d, c)
		rows := func(table string) (n int) {
			t.Helper()
			if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM `+table).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		sweep := func() {
			t.Helper()
			wantError(t, "sweeping", w.service.Sweep(t.Context()), nil)
		}
		created := rows("platform_audit")
		pairing := must(w.client.CreatePairing(asOperator(t), pairWith(t, newRSA(t))))(t)
		must(w.client.CreateCredentials(w.as("maintain"), &platformv1.CreateCredentialsRequest{WorkspaceId: &w.ws, Body: login("a", "quay.io", "pw")}))(t)
		code := w.code("view")
		tokens := must(w.issue(func(r *platformv1.IssueTokensRequest) { r.Code = code }))(t)

		ends := pairing.GetExpires().AsTime()
		w.clock.now = ends.Add(-time.Second)
		refreshed := must(w.refresh(tokens.GetRefreshToken()))(t)
		sweep()
		if rows("platform_pairings") != 1 || rows("platform_sessions") != 1 || rows("platform_audit") < created+2 {
			t.Error("a row was deleted too early")
		}
		w.clock.now = ends.Add(time.Second)
		sweep()
		if rows("platform_pairings") != 0 || rows("platform_sessions") != 1 {
			t.Error("the expired pairing or the valid sign-in is in the wrong state")
		}
		w.clock.now = ends.Add(40 * 24 * time.Hour)
		sweep()
		_, err := w.refresh(refreshed.GetRefreshToken())
		wantError(t, "a sign-in that ended", err, fault.Unauthenticated)
		if rows("platform_sessions") != 0 || rows("platform_audit") < created+2 {
			t.Error("the expired sign-in or the retained audit events are in the wrong state")
		}
		w.clock.now = ends.Add(500 * 24 * time.Hour)
		sweep()
		if n := rows("platform_audit"); n != 0 {
			t.Errorf("%d audit events are older than their retention", n)
		}
		// The chain continues from the events that were deleted.
		must(w.client.CreateToken(w.as("view"), &platformv1.CreateTokenRequest{Token: &platformv1.TokenSpec{Name: "later"}}))(t)
		_, err = w.service.VerifyAudit(t.Context())
		wantError(t, "the chain after a sweep", err, nil)
	})
}
