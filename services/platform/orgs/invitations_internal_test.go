package orgs

import (
	"errors"
	"testing"
	"time"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/platform/audit"
	"slipway.dev/services/platform/identity"
	"slipway.dev/services/platform/migrations"
)

// TestChangesOfChangedInvitation changes and revokes an invitation after another user has changed its
// role, and invites to an organisation and a workspace that were deleted meanwhile.
func TestChangesOfChangedInvitation(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		ctx, now := t.Context(), time.Now()
		if err := db.Migrate(ctx, "platform", migrations.FS()); err != nil {
			t.Fatal(err)
		}
		if _, err := db.ExecContext(ctx, `INSERT INTO platform_orgs (id, name, name_key, full_name, description, location, website, created_at) VALUES (1, 'lab', 'lab', 'Lab', '', '', '', 0)`); err != nil {
			t.Fatal(err)
		}
		s := store{db, audit.Log{DB: db, Now: time.Now}}
		i := invitation{id: 2, orgID: 1, email: "kim@example.org", role: orgRoleMember, inviter: 7, invited: invited{"ada", now, now.Add(time.Hour)}}
		if done, err := s.insertInvitation(ctx, i); err != nil || !done {
			t.Fatal(done, err)
		}
		if done, err := s.setInvitationRole(ctx, i, orgRoleOwner, identity.User{ID: 8, Name: "bob"}, now); err != nil || !done {
			t.Error("changing the role:", done, err)
		}
		if done, err := s.setInvitationRole(ctx, i, orgRoleMember, identity.User{ID: 7, Name: "ada"}, now); err != nil || done {
			t.Error("changing the role that another user has changed:", done, err)
		}
		if done, err := s.deleteInvitation(ctx, i); err != nil || done {
			t.Error("revoking a role that another user has changed:", done, err)
		}
		got, err := s.orgInvitation(ctx, 1, i.email, now)
		if err != nil || got.role != orgRoleOwner || got.inviter != 8 || got.by != "bob" {
			t.Errorf("stored is %+v, %v", got, err)
		}
		if done, err := s.setInvitationRole(ctx, got, orgRoleMember, identity.User{ID: 8, Name: "bob"}, now.Add(time.Hour)); err != nil || done {
			t.Error("changing an expired invitation:", done, err)
		}
		i.id, i.orgID = 3, 5
		if done, err := s.insertInvitation(ctx, i); done || !errors.Is(err, fault.NotFound) {
			t.Error("inviting to a deleted organisation:", done, err)
		}
		i.orgID, i.workspaceID = 1, 5
		if done, err := s.insertInvitation(ctx, i); done || !errors.Is(err, fault.NotFound) {
			t.Error("inviting to a deleted workspace:", done, err)
		}
	})
}
