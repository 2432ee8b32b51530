package platform_test

import (
	"testing"
	"time"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// TestSweep: the audit trail is kept as long as it is to be, pairings and sign-ins
// until they end.
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
			wants(t, "sweeping", w.service.Sweep(t.Context()), nil)
		}
		pairing := must(w.client.CreatePairing(asOperator(t), pairWith(t, newRSA(t))))(t)
		must(w.client.CreateCredentials(w.as("maintain"), &platformv1.CreateCredentialsRequest{WorkspaceId: &w.ws, Body: login("a", "quay.io", "pw")}))(t)
		code := w.code("view")
		tokens := must(w.issue(func(r *platformv1.IssueTokensRequest) { r.Code = code }))(t)

		ends := pairing.GetExpires().AsTime()
		w.clock.now = ends.Add(-time.Second)
		refreshed := must(w.refresh(tokens.GetRefreshToken()))(t)
		sweep()
		if rows("platform_pairings") != 1 || rows("platform_sessions") != 1 || rows("platform_audit") != 2 {
			t.Error("something was removed before its time")
		}
		w.clock.now = ends.Add(time.Second)
		sweep()
		if rows("platform_pairings") != 0 || rows("platform_sessions") != 1 {
			t.Error("the pairing has ended, and the sign-in has not")
		}
		w.clock.now = ends.Add(40 * 24 * time.Hour)
		sweep()
		_, err := w.refresh(refreshed.GetRefreshToken())
		wants(t, "a sign-in that ended", err, fault.Unauthenticated)
		if rows("platform_sessions") != 0 || rows("platform_audit") != 2 {
			t.Error("the sign-in has ended, and the audit trail is kept")
		}
		w.clock.now = ends.Add(366 * 24 * time.Hour)
		sweep()
		if n := rows("platform_audit"); n != 0 {
			t.Errorf("%d rows of the audit trail are older than they are to be", n)
		}
	})
}
