package platform_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// vexDocument returns an OpenVEX document with a number of statements.
func vexDocument(statements int) string {
	one := `{"vulnerability":{"name":"CVE-2026-1"},"products":[{"@id":"pkg:deb/debian/zlib1g"}],"status":"fixed"}`
	return `{"@context":"https://openvex.dev/ns/v0.2.0","timestamp":"2020-01-01T00:00:00Z","statements":[` + strings.TrimSuffix(strings.Repeat(one+",", statements), ",") + `]}`
}

func (w *world) setVEX(ctx context.Context, org *int64, name, content string) (*platformv1.VexDocument, error) {
	resp, err := w.client.SetVexDocument(ctx, &platformv1.SetVexDocumentRequest{OrgId: org, Name: name, Document: &platformv1.VexSpec{Content: content}})
	return resp.GetDocument(), err
}

// appliedVEX returns the names of the documents that apply to a user in a workspace.
func (w *world) appliedVEX(user, workspace int64) []string {
	w.t.Helper()
	resp := must(w.client.GetVex(w.t.Context(), &platformv1.GetVexRequest{Identity: &platformv1.Identity{Endpoint: endpoint, UserId: user, WorkspaceId: workspace}}))(w.t)
	out := []string{}
	for _, d := range resp.GetDocuments() {
		out = append(out, d.GetName())
	}
	return out
}

// TestVEXDocuments stores documents of a user and of an organisation, and checks to whose scans they apply.
func TestVEXDocuments(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		boss, launch := w.as("boss"), w.as("launch")
		mine := must(w.setVEX(launch, nil, "mine", vexDocument(2)))(t)
		if mine.GetName() != "mine" || mine.GetStatements() != 2 || mine.GetSize() != int32(len(vexDocument(2))) || mine.GetUpdatedBy() != "launch" || mine.GetLastUpdated() == nil {
			t.Errorf("the document is %v", mine)
		}
		must(w.setVEX(boss, &w.org, "base", vexDocument(1)))(t)
		must(w.setVEX(boss, nil, "mine", vexDocument(3)))(t) // of another user
		for name, got := range map[string]struct {
			list []string
			want string
		}{
			"the user":                   {w.appliedVEX(w.ids["launch"], 0), "[user/mine]"},
			"in the workspace":           {w.appliedVEX(w.ids["launch"], w.ws), "[organization/base user/mine]"},
			"another user":               {w.appliedVEX(w.ids["view"], 0), "[]"},
			"another user in the same":   {w.appliedVEX(w.ids["view"], w.ws), "[organization/base]"},
			"a user without a role":      {w.appliedVEX(w.ids["stranger"], w.ws), "[]"},
			"a user that does not exist": {w.appliedVEX(7, w.ws), "[]"},
		} {
			if fmt.Sprint(got.list) != got.want {
				t.Errorf("%s: %v, want %s", name, got.list, got.want)
			}
		}
		foreign := must(w.client.GetVex(t.Context(), &platformv1.GetVexRequest{Identity: &platformv1.Identity{Endpoint: "https://elsewhere.test", UserId: w.ids["launch"]}}))(t)
		if len(foreign.GetDocuments()) != 0 {
			t.Errorf("a user of another platform: %v", foreign)
		}
		robot := w.robot("boss", nil, "ci", "launch")
		if got := w.appliedVEX(robot.id, w.ws); !slices.Equal(got, []string{"organization/base"}) {
			t.Errorf("a robot in a workspace: %v", got)
		}
		alone := must(w.client.GetVex(t.Context(), &platformv1.GetVexRequest{Identity: &platformv1.Identity{Endpoint: endpoint, UserId: robot.id, RobotOrgId: w.org}}))(t)
		if len(alone.GetDocuments()) != 1 {
			t.Errorf("a robot of an organisation: %v", alone)
		}

		future := strings.Replace(vexDocument(1), "2020-01-01", "9999-12-31", 1)
		if _, err := w.setVEX(launch, nil, "future", future); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "9999") {
			t.Errorf("a statement of the future: %v", err)
		}

		// The version changes with each document, and nothing is sent without a change.
		id := &platformv1.Identity{Endpoint: endpoint, UserId: w.ids["launch"]}
		first := must(w.client.GetVex(t.Context(), &platformv1.GetVexRequest{Identity: id}))(t)
		again := must(w.client.GetVex(t.Context(), &platformv1.GetVexRequest{Identity: id, KnownVersion: first.GetVersion()}))(t)
		if first.GetVersion() == "" || again.GetVersion() != first.GetVersion() || len(again.GetDocuments()) != 0 {
			t.Errorf("without a change: %v", again)
		}
		must(w.setVEX(launch, nil, "mine", vexDocument(1)))(t)
		if again = must(w.client.GetVex(t.Context(), &platformv1.GetVexRequest{Identity: id, KnownVersion: first.GetVersion()}))(t); again.GetVersion() == first.GetVersion() || len(again.GetDocuments()) != 1 {
			t.Errorf("after a change: %v", again)
		}

		got := must(w.client.DescribeVexDocument(launch, &platformv1.DescribeVexDocumentRequest{Name: "mine"}))(t)
		if got.GetContent() != vexDocument(1) || got.GetDocument().GetStatements() != 1 {
			t.Errorf("the document is %v", got)
		}
		list := must(w.client.ListVexDocuments(w.as("member"), &platformv1.ListVexDocumentsRequest{OrgId: &w.org}))(t)
		if len(list.GetDocuments()) != 1 || list.GetDocuments()[0].GetName() != "base" {
			t.Errorf("the documents of the organisation are %v", list)
		}
		_, err := w.client.DeleteVexDocument(w.as("view"), &platformv1.DeleteVexDocumentRequest{Name: "mine"})
		wantError(t, "the document of another user", err, fault.NotFound)
		must(w.client.DeleteVexDocument(launch, &platformv1.DeleteVexDocumentRequest{Name: "mine"}))(t)
		_, err = w.client.DeleteVexDocument(launch, &platformv1.DeleteVexDocumentRequest{Name: "mine"})
		wantError(t, "a deleted document", err, fault.NotFound)
		w.wantVEXTrail()
		if got := w.appliedVEX(w.ids["boss"], 0); !slices.Equal(got, []string{"user/mine"}) {
			t.Errorf("the document of another user with the same name: %v", got)
		}
	})
}

// wantVEXTrail checks the audit trail of the documents.
func (w *world) wantVEXTrail() {
	w.t.Helper()
	if err := w.service.SetAdministrator(w.t.Context(), "boss", true); err != nil {
		w.t.Fatal(err)
	}
	resp := must(w.client.ListAuditEvents(w.as("boss"), &platformv1.ListAuditEventsRequest{Max: new(int32(100))}))(w.t)
	var all []string
	for _, e := range resp.GetEvents() {
		if strings.HasPrefix(e.GetAction(), "vex.") {
			all = append(all, fmt.Sprint(e.GetAction(), " ", e.GetSubject(), " ", e.GetActor()))
		}
	}
	slices.Sort(all)
	if want := "[vex.delete user/mine launch vex.set organization/base boss vex.set user/mine boss vex.set user/mine launch vex.set user/mine launch]"; fmt.Sprint(all) != want {
		w.t.Errorf("the audit trail has %v, want %s", all, want)
	}
}

// TestVEXRoles checks who may read and change the documents of an organisation.
func TestVEXRoles(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.SQLite(t))
	must(w.setVEX(w.as("boss"), &w.org, "base", vexDocument(1)))(t)
	for _, who := range userNames()[1:] {
		var read error
		if who == "stranger" {
			read = fault.Denied
		}
		ctx := w.as(who)
		_, err := w.client.ListVexDocuments(ctx, &platformv1.ListVexDocumentsRequest{OrgId: &w.org})
		wantError(t, who+" lists", err, read)
		_, err = w.client.DescribeVexDocument(ctx, &platformv1.DescribeVexDocumentRequest{OrgId: &w.org, Name: "base"})
		wantError(t, who+" reads", err, read)
		_, err = w.setVEX(ctx, &w.org, "base", vexDocument(1))
		wantError(t, who+" writes", err, fault.Denied)
		_, err = w.client.DeleteVexDocument(ctx, &platformv1.DeleteVexDocumentRequest{OrgId: &w.org, Name: "base"})
		wantError(t, who+" deletes", err, fault.Denied)
	}
	_, err := w.client.ListVexDocuments(t.Context(), &platformv1.ListVexDocumentsRequest{})
	wantError(t, "without a token", err, fault.Unauthenticated)
	_, err = w.setVEX(w.scoped("boss", "workspace", w.ws), nil, "mine", vexDocument(1))
	wantError(t, "with a token of a workspace", err, fault.Denied)
	missing := int64(-1)
	_, err = w.client.ListVexDocuments(w.as("boss"), &platformv1.ListVexDocumentsRequest{OrgId: &missing})
	wantError(t, "an organisation that does not exist", err, fault.Denied)
}

// TestVEXBounds exceeds every limit of the documents of an owner.
func TestVEXBounds(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		boss := w.as("boss")
		padded := func(size int) string { return vexDocument(1) + strings.Repeat(" ", size-len(vexDocument(1))) }
		for _, bad := range []struct{ name, content string }{
			{"x", vexDocument(1)}, {"a/b", vexDocument(1)}, {"name", ""}, {"name", "{}"}, {"name", padded(limits.VEXOwned + 1)}, {"", vexDocument(1)},
		} {
			_, err := w.setVEX(boss, nil, bad.name, bad.content)
			wantError(t, fmt.Sprintf("%q %.20s", bad.name, bad.content), err, fault.Invalid)
		}
		for i := range limits.VEXOwnedTotal / limits.VEXOwned {
			must(w.setVEX(boss, nil, fmt.Sprint("large", i), padded(limits.VEXOwned)))(t)
		}
		_, err := w.setVEX(boss, nil, "more", vexDocument(1))
		wantError(t, "more bytes", err, fault.Invalid)
		must(w.setVEX(boss, nil, "large0", vexDocument(1)))(t) // replaced by a smaller one
		must(w.setVEX(boss, nil, "more", vexDocument(1)))(t)
		must(w.setVEX(boss, &w.org, "many", vexDocument(limits.VEXOwnedStatements-limits.VEXPerOwner)))(t)
		for i := range limits.VEXPerOwner - 1 {
			must(w.setVEX(boss, &w.org, fmt.Sprint("small", i), vexDocument(1)))(t)
		}
		_, err = w.setVEX(boss, &w.org, "one-more", vexDocument(1))
		if e, ok := fault.As(err); !ok || e.Code != fault.ObjectLimit {
			t.Errorf("one document more: %v", err)
		}
		_, err = w.setVEX(boss, &w.org, "small0", vexDocument(3))
		wantError(t, "more statements", err, fault.Invalid)
	})
}
