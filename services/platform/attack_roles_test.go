package platform_test

import (
	"strings"
	"sync"
	"testing"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// A listener is a bus that counts messages.
type listener struct {
	mu    sync.Mutex
	heard []string
}

func (l *listener) Publish(subject string, data []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = append(l.heard, subject+": "+string(data))
	return nil
}

// since returns the number of messages since its last call.
func (l *listener) since() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.heard)
	l.heard = nil
	return n
}

// TestWhoUsesCredentials makes each call that returns a secret with each role. Users below the
// role launch get no secret, including those who see the workspace because it is shared.
func TestWhoUsesCredentials(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		d := deps(t, db)
		d.OperatorAccounts = operatorsFile(t)
		w := newWorldWith(t, d, january())
		pair := must(w.client.CreatePairing(asOperator(t), pairWith(t, newRSA(t))))(t).GetPairingId()
		id := must(w.client.CreateCredentials(w.as("maintain"), &platformv1.CreateCredentialsRequest{WorkspaceId: &w.ws, Body: login("team", "quay.io/team", "secret")}))(t).GetCredentialsId()
		must(w.client.UpdateWorkspace(w.as("boss"), &platformv1.UpdateWorkspaceRequest{OrgId: w.org, Id: w.ws, Workspace: &platformv1.WorkspaceSpec{Visibility: new("SHARED")}}))(t)
		for _, who := range userNames() {
			uses := map[string]bool{"boss": true, "owner": true, "admin": true, "maintain": true, "launch": true}[who]
			resp, err := w.client.GetCredentials(t.Context(), &platformv1.GetCredentialsRequest{Identity: w.identity(who), Registry: "quay.io/team/app"})
			_, keysErr := w.client.GetCredentialsKeys(w.as(who), &platformv1.GetCredentialsKeysRequest{WorkspaceId: &w.ws, CredentialsId: id, PairingId: pair})
			other, _ := w.client.GetCredentials(t.Context(), &platformv1.GetCredentialsRequest{Identity: w.identity(who), Registry: "ghcr.io/team/app"})
			if other.GetWithheld() != "" || other.GetCredentials() != nil {
				t.Errorf("%s, where there is none: %v", who, other)
			}
			switch {
			case who == "stranger":
				wantError(t, who, err, fault.Denied)
				wantError(t, who+" asking for keys", keysErr, fault.Denied)
			case uses:
				wantError(t, who, err, nil)
				wantError(t, who+" asking for keys", keysErr, nil)
				if resp.GetCredentials().GetPassword() != "secret" || resp.GetWithheld() != "" {
					t.Errorf("%s gets %v", who, resp)
				}
			default:
				wantError(t, who, err, nil)
				wantError(t, who+" asking for keys", keysErr, fault.Denied)
				if resp.GetCredentials() != nil || !strings.Contains(resp.GetWithheld(), "may not use its credentials") {
					t.Errorf("%s gets %v", who, resp)
				}
			}
		}
	})
}

// TestRightsEndImmediately checks that each change that revokes access is published, and that
// the next call returns no login.
func TestRightsEndImmediately(t *testing.T) {
	t.Parallel()
	bus := &listener{}
	d := deps(t, testkit.SQLite(t))
	d.Bus, d.Log = bus, testkit.Log(t)
	w := newWorldWith(t, d, january())
	id := must(w.client.CreateCredentials(w.as("maintain"), &platformv1.CreateCredentialsRequest{WorkspaceId: &w.ws, Body: login("team", "quay.io", "secret")}))(t).GetCredentialsId()
	bus.since()
	boss := w.as("boss")
	has := func(who string) bool {
		resp, _ := w.client.GetCredentials(t.Context(), &platformv1.GetCredentialsRequest{Identity: w.identity(who), Registry: "quay.io/app"})
		return resp.GetCredentials() != nil
	}
	for name, c := range map[string]struct {
		who string
		do  func() error
	}{
		"a lower role": {"launch", func() error {
			_, err := w.client.UpdateParticipantRole(boss, &platformv1.UpdateParticipantRoleRequest{OrgId: w.org, Id: w.ws, ParticipantId: w.partOf["launch"], Role: &platformv1.ParticipantRole{Role: "connect"}})
			return err
		}},
		"no participant": {"maintain", func() error {
			_, err := w.client.DeleteParticipant(boss, &platformv1.DeleteParticipantRequest{OrgId: w.org, Id: w.ws, ParticipantId: w.partOf["maintain"]})
			return err
		}},
		"no member": {"admin", func() error {
			_, err := w.client.DeleteMember(boss, &platformv1.DeleteMemberRequest{OrgId: w.org, MemberId: w.memberOf["admin"]})
			return err
		}},
		"left the organisation": {"owner", func() error {
			_, err := w.client.LeaveOrganization(w.as("owner"), &platformv1.LeaveOrganizationRequest{OrgId: w.org})
			return err
		}},
	} {
		if !has(c.who) {
			t.Errorf("%s: had none before", name)
		}
		wantError(t, name, c.do(), nil)
		if has(c.who) || bus.since() != 1 {
			t.Errorf("%s: the login is still returned, or the change was not published", name)
		}
	}
	must(w.client.DeleteCredentials(boss, &platformv1.DeleteCredentialsRequest{WorkspaceId: &w.ws, CredentialsId: id}))(t)
	if bus.since() != 1 {
		t.Error("the deletion of credentials was not published")
	}
}
