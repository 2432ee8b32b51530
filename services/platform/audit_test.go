package platform_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/platform/audit"
)

// events returns the newest events with an action, or all if action is "".
func (w *world) events(action string) []*platformv1.AuditEvent {
	w.t.Helper()
	req := &platformv1.ListAuditEventsRequest{Action: action, Max: new(int32(1000))}
	return must(w.client.ListAuditEvents(w.as("owner"), req))(w.t).GetEvents()
}

// withAdministrator makes the user "owner" an administrator.
func (w *world) withAdministrator() *world {
	w.t.Helper()
	wantError(w.t, "granting", w.service.SetAdministrator(w.t.Context(), "owner", true), nil)
	return w
}

// TestChangesAreRecorded checks the event of each kind of change.
func TestChangesAreRecorded(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db).withAdministrator()
		o, ws, boss := w.org, w.ws, w.as("boss")
		id := must(w.client.CreateCredentials(w.as("maintain"), &platformv1.CreateCredentialsRequest{WorkspaceId: &ws, Body: login("a", "quay.io", "pa55word")}))(t).GetCredentialsId()
		must(w.client.UpdateCredentials(w.as("maintain"), &platformv1.UpdateCredentialsRequest{WorkspaceId: &ws, CredentialsId: id, Body: login("b", "quay.io", "pa55word2")}))(t)
		must(w.client.DeleteCredentials(w.as("maintain"), &platformv1.DeleteCredentialsRequest{WorkspaceId: &ws, CredentialsId: id}))(t)
		token := must(w.client.CreateToken(w.as("view"), &platformv1.CreateTokenRequest{Token: &platformv1.TokenSpec{Name: "ci"}}))(t)
		must(w.client.DeleteToken(w.as("view"), &platformv1.DeleteTokenRequest{TokenId: int64(token.GetToken().GetId())}))(t)
		must(w.client.UpdateOrganization(boss, &platformv1.UpdateOrganizationRequest{OrgId: o, Organization: &platformv1.OrganizationSpec{FullName: new("The lab")}}))(t)
		must(w.client.UpdateWorkspace(boss, &platformv1.UpdateWorkspaceRequest{OrgId: o, Id: ws, Workspace: &platformv1.WorkspaceSpec{Visibility: new("SHARED")}}))(t)
		must(w.client.UpdateMemberRole(boss, &platformv1.UpdateMemberRoleRequest{OrgId: o, MemberId: w.memberOf["member"], Role: &platformv1.RoleSpec{Role: "owner"}}))(t)
		must(w.client.DeleteParticipant(boss, &platformv1.DeleteParticipantRequest{OrgId: o, Id: ws, ParticipantId: w.partOf["view"]}))(t)
		must(w.client.DeleteMember(boss, &platformv1.DeleteMemberRequest{OrgId: o, MemberId: w.memberOf["view"]}))(t)
		code := w.code("launch")
		must(w.issue(func(r *platformv1.IssueTokensRequest) { r.Code = code }))(t)
		for _, want := range []struct{ action, actor, before, after string }{
			{"credentials.create", "maintain", "", "quay.io"},
			{"credentials.update", "maintain", `"a"`, `"b"`},
			{"credentials.delete", "maintain", "", ""},
			{"token.create", "view", "", "ci"},
			{"token.delete", "view", "", ""},
			{"organization.update", "boss", `"lab"`, "The lab"},
			{"workspace.update", "boss", "PRIVATE", "SHARED"},
			{"member.role", "boss", "member", "owner"},
			{"participant.remove", "boss", "view", ""},
			{"member.remove", "boss", "member", ""},
			{"sign-in", "launch", "", "token"},
			{"session.create", "launch", "", "code"},
			{"user.grant", "", "false", "true"},
		} {
			list := w.events(want.action)
			if len(list) == 0 {
				t.Errorf("%s is not recorded", want.action)
				continue
			}
			e := list[0]
			text := e.String()
			if e.GetActor() != want.actor || e.GetRefused() || !strings.Contains(e.GetBefore().String(), strings.Trim(want.before, `"`)) || !strings.Contains(e.GetAfter().String(), strings.Trim(want.after, `"`)) {
				t.Errorf("%s is recorded as %s", want.action, text)
			}
			if strings.Contains(text, "pa55word") || strings.Contains(text, token.GetAccessKey()) {
				t.Errorf("%s contains a secret: %s", want.action, text)
			}
		}
		_, err := w.service.VerifyAudit(t.Context())
		wantError(t, "the chain", err, nil)
	})
}

// TestRefusalsAreRecorded checks that rejected changes and sign-ins are recorded with their
// reason, and that rejected calls that only read are not.
func TestRefusalsAreRecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.SQLite(t)).withAdministrator()
	_, err := w.client.CreateCredentials(w.as("view"), &platformv1.CreateCredentialsRequest{WorkspaceId: &w.ws, Body: login("a", "quay.io", "pw")})
	wantError(t, "a viewer", err, fault.Denied)
	_, err = w.client.DeleteAccount(w.as("boss"), &platformv1.DeleteAccountRequest{UserId: w.ids["view"]})
	wantError(t, "no administrator", err, fault.Denied)
	_, err = w.client.ListAuditEvents(w.as("boss"), &platformv1.ListAuditEventsRequest{})
	wantError(t, "no administrator reads", err, fault.Denied)
	_, err = w.client.CreateToken(bearer(t.Context(), "eyJ0aWQiOjF9LjAw"), &platformv1.CreateTokenRequest{})
	wantError(t, "a wrong token", err, fault.Unauthenticated)
	list := must(w.client.ListAuditEvents(w.as("owner"), &platformv1.ListAuditEventsRequest{Refused: new(true)}))(t).GetEvents()
	var got []string
	for _, e := range list {
		got = append(got, e.GetAction()+" "+e.GetActor())
		if e.GetReason() == "" {
			t.Errorf("no reason: %v", e)
		}
	}
	if want := "call.CreateToken , call.DeleteAccount boss, call.CreateCredentials view"; strings.Join(got, ", ") != want {
		t.Errorf("recorded are %q, want %q", got, want)
	}
}

// TestAuditPages reads the trail in pages and with filters.
func TestAuditPages(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db).withAdministrator()
		all := w.events("")
		var paged []*platformv1.AuditEvent
		req := &platformv1.ListAuditEventsRequest{Max: new(int32(7))}
		for {
			page := must(w.client.ListAuditEvents(w.as("owner"), req))(t)
			paged = append(paged, page.GetEvents()...)
			if page.GetNext() == nil {
				break
			}
			req.Before = new(int64(page.GetNext().GetValue()))
		}
		if len(paged) != len(all) || len(all) < 20 {
			t.Fatalf("%d events in pages, %d at once", len(paged), len(all))
		}
		for i, e := range paged {
			if e.GetSequence() != float64(len(all)-i) {
				t.Errorf("event %d is at %d", int(e.GetSequence()), i)
			}
		}
		for _, c := range []struct {
			req  *platformv1.ListAuditEventsRequest
			want int
		}{
			{&platformv1.ListAuditEventsRequest{Action: "user.*", Subject: "view"}, 1},
			{&platformv1.ListAuditEventsRequest{Action: "user.create", Subject: "nobody"}, 0},
			{&platformv1.ListAuditEventsRequest{Actor: "boss", Action: "workspace.create"}, 1},
			{&platformv1.ListAuditEventsRequest{Since: "2026-02-01T00:00:00Z"}, 0},
			{&platformv1.ListAuditEventsRequest{Until: "2026-01-31T00:00:00Z"}, 0},
			{&platformv1.ListAuditEventsRequest{Action: "workspace.create", Since: "2026-01-31T00:00:00Z", Refused: new(false)}, 1},
		} {
			if got := must(w.client.ListAuditEvents(w.as("owner"), c.req))(t).GetEvents(); len(got) != c.want {
				t.Errorf("%v: %d events, want %d", c.req, len(got), c.want)
			}
		}
		_, err := w.client.ListAuditEvents(w.as("owner"), &platformv1.ListAuditEventsRequest{Since: "yesterday"})
		wantError(t, "an invalid time", err, fault.Invalid)
	})
}

// TestAuditChain appends from two replicas concurrently, and then checks that Verify detects
// each kind of damage.
func TestAuditChain(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		_, second := serveWith(t, deps(t, db))
		var all sync.WaitGroup
		for n := range 40 {
			at := []platformClient{w.client, second}[n%2]
			all.Go(func() {
				_, err := at.CreateToken(w.as(userNames()[n%9]), &platformv1.CreateTokenRequest{Token: &platformv1.TokenSpec{Name: fmt.Sprint("t", n)}})
				wantError(t, "a token", err, nil)
			})
		}
		all.Wait()
		head := must(w.service.VerifyAudit(t.Context()))(t)
		if head.Sequence < 60 {
			t.Errorf("the newest event is %d", head.Sequence)
		}
		must(w.service.VerifyAudit(t.Context(), head))(t)
		for name, damage := range map[string]string{
			"a changed event": `UPDATE platform_audit SET subject = 'x' WHERE sequence = 5`,
			"a missing event": `DELETE FROM platform_audit WHERE sequence = 5`,
			"a missing end":   `DELETE FROM platform_audit WHERE sequence >= 50`,
			"a missing begin": `DELETE FROM platform_audit WHERE sequence <= 5`,
		} {
			damaged(t, db, damage)
			_, err := w.service.VerifyAudit(t.Context())
			if !errors.Is(err, audit.ErrBroken) {
				t.Errorf("%s: %v", name, err)
			}
			restore(t, db)
		}
		must(w.service.VerifyAudit(t.Context(), head))(t)
		other := audit.Position{Sequence: head.Sequence, Hash: []byte("another")}
		_, err := w.service.VerifyAudit(t.Context(), other)
		wantError(t, "another trail", err, audit.ErrBroken)
		_, err = w.service.VerifyAudit(t.Context(), audit.Position{Sequence: head.Sequence + 1, Hash: head.Hash})
		wantError(t, "a shorter trail", err, audit.ErrBroken)
		run(t, db, `DELETE FROM platform_audit WHERE sequence <= 5`, `UPDATE platform_audit_chain SET start_sequence = 5,
			start_hash = (SELECT hash FROM platform_audit WHERE sequence = 5)`)
		_, err = w.service.VerifyAudit(t.Context(), audit.Position{Sequence: 3, Hash: head.Hash})
		wantError(t, "a trail that begins after the known event", err, audit.ErrBroken)
	})
}

// TestChangesOfAUserAreBounded checks that no user can fill the audit trail, and that a text
// with NUL is recorded.
func TestChangesOfAUserAreBounded(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		d := deps(t, db)
		d.Limiter = ratelimit.New(testkit.Redis(t), prometheus.NewRegistry(), testkit.Log(t))
		w := newWorld(t, db)
		_, client := serveWith(t, d)
		description := func(text string) error {
			_, err := client.UpdateOrganization(w.as("boss"), &platformv1.UpdateOrganizationRequest{OrgId: w.org, Organization: &platformv1.OrganizationSpec{Description: &text}})
			return err
		}
		wantError(t, "a change", description("first"), nil)
		limit := ratelimit.Limit{{Count: limits.AuditChanges, Window: limits.AuditWindow}}
		if _, err := d.Limiter.Charge(t.Context(), "changes", fmt.Sprint("user:", w.ids["boss"]), limit, limits.AuditChanges-1); err != nil {
			t.Fatal(err)
		}
		wantError(t, "a change above the limit", description("second"), fault.Exhausted)
		log := audit.Log{DB: db, Now: d.Now}
		log.Refuse(t.Context(), audit.Event{Action: "user.signin", Subject: "a\x00b"}, fault.Denied.Newf("No"))
		var subject string
		if err := db.QueryRowContext(t.Context(), `SELECT subject FROM platform_audit ORDER BY sequence DESC LIMIT 1`).Scan(&subject); err != nil || subject != "ab" {
			t.Errorf("the last subject is %q, %v; want ab", subject, err)
		}
	})
}

// damaged copies the trail and runs a statement.
func damaged(t *testing.T, db *sqldb.DB, statement string) {
	t.Helper()
	run(t, db, `CREATE TABLE kept AS SELECT * FROM platform_audit`, statement)
}

// restore undoes damaged.
func restore(t *testing.T, db *sqldb.DB) {
	t.Helper()
	run(t, db, `DELETE FROM platform_audit`, `INSERT INTO platform_audit SELECT * FROM kept`, `DROP TABLE kept`)
}

func run(t *testing.T, db *sqldb.DB, statements ...string) {
	t.Helper()
	for _, text := range statements {
		if _, err := db.ExecContext(context.Background(), text); err != nil {
			t.Fatal(err)
		}
	}
}
