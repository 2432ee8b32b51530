package identity

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/platform/audit"
)

// DisableUser disables a user: the user's tokens and sessions stop working immediately, and the
// user cannot sign in. The user's data is retained. EnableUser makes the tokens work again.
func (s *Service) DisableUser(ctx context.Context, userName string) error {
	return s.setDisabled(ctx, userName, s.deps.Now())
}

// EnableUser undoes DisableUser.
func (s *Service) EnableUser(ctx context.Context, userName string) error {
	return s.setDisabled(ctx, userName, time.Time{})
}

func (s *Service) setDisabled(ctx context.Context, userName string, at time.Time) error {
	u, err := s.removableUser(ctx, userName)
	if err != nil {
		return err
	}
	done, err := s.store.disableUser(ctx, u, at)
	if err != nil {
		return fmt.Errorf("writing user %s: %w", userName, err)
	}
	if !done && at.IsZero() {
		return fault.NotFound.Newf("No such user: %s", userName) // deleted meanwhile
	}
	if !done {
		return errLastAdministrator(u)
	}
	return nil
}

// errLastAdministrator returns the fault for a change that would leave no administrator.
func errLastAdministrator(u User) error {
	return fault.Conflict.Newf("%s is the last administrator; make another user an administrator first", u.Name)
}

// SetAdministrator grants or revokes the role of an administrator. It returns fault.Conflict for
// the last administrator.
func (s *Service) SetAdministrator(ctx context.Context, userName string, administrator bool) error {
	u, err := s.UserByName(ctx, userName)
	if err != nil {
		return err
	}
	return s.setAdministrator(ctx, u, administrator)
}

func (s *Service) setAdministrator(ctx context.Context, u User, administrator bool) error {
	if u.Administrator == administrator {
		return nil
	}
	if administrator && !u.Disabled.IsZero() {
		return fault.Invalid.Newf("%s is disabled; enable the user first", u.Name)
	}
	done, err := s.store.setAdministrator(ctx, u, administrator)
	if err != nil {
		return fmt.Errorf("writing user %s: %w", u.Name, err)
	}
	if !done && administrator {
		return fault.NotFound.Newf("No such user: %s", u.Name) // deleted meanwhile
	}
	if !done {
		return errLastAdministrator(u)
	}
	return nil
}

// DeleteUser deletes a user with the user's tokens, sessions and memberships, and personal
// credentials, runs and webhooks, and revokes the invitations of the address, with immediate effect. Records in shared workspaces stay, with the user's id. It
// returns fault.Conflict for the last owner of an organisation.
func (s *Service) DeleteUser(ctx context.Context, userName string) error {
	u, err := s.removableUser(ctx, userName)
	if err != nil {
		return err
	}
	orphan, err := s.store.deleteUser(ctx, u, func(t *sql.Tx) ([]audit.Event, error) {
		if s.invitations == nil {
			return nil, nil
		}
		return s.invitations.RevokeInvitationsIn(ctx, t, AddressKey(u.Email))
	})
	if errors.Is(err, errNoAdministrator) {
		return errLastAdministrator(u)
	}
	if err != nil {
		return fmt.Errorf("deleting user %s: %w", userName, err)
	}
	if orphan != "" {
		return fault.Conflict.Newf("%s is the last owner of the organisation %s; make another member an owner first, or delete the organisation", userName, orphan)
	}
	return nil
}

// UnlinkUser deletes the link between a user and an account at the OIDC provider, and ends the
// sessions that began there. The next account that signs in with the user's verified e-mail
// address is linked.
func (s *Service) UnlinkUser(ctx context.Context, userName string) error {
	u, err := s.UserByName(ctx, userName)
	if err != nil {
		return err
	}
	if err := s.store.unlinkLogins(ctx, u); err != nil {
		return fmt.Errorf("deleting the logins of user %s: %w", userName, err)
	}
	return nil
}

// removableUser returns a user who may be disabled or deleted. It returns fault.Invalid for
// the first user, who is managed by the server's settings.
func (s *Service) removableUser(ctx context.Context, userName string) (User, error) {
	u, err := s.UserByName(ctx, userName)
	if err == nil && u.ID == AdminID {
		err = fault.Invalid.Newf("%s is the first user, which the server's settings manage; revoke the user's tokens instead: `slipwayd token revoke`", userName)
	}
	return u, err
}

// notLastAdministrator is an SQL condition on the user $1: the user is not an administrator, or
// another enabled user is an administrator.
const notLastAdministrator = ` AND (NOT administrator OR EXISTS (
	SELECT 1 FROM platform_users o WHERE o.administrator AND o.disabled_at = 0 AND o.id <> $1))`

// lockAdministrators serializes changes of the administrators until the end of the transaction,
// so that two administrators cannot remove each other concurrently.
func lockAdministrators(ctx context.Context, t *sql.Tx) error {
	_, err := t.ExecContext(ctx, `UPDATE platform_users SET updated_at = updated_at WHERE administrator`)
	return err
}

// setAdministrator grants or revokes the role. It returns false, without a change, if it would
// revoke the role of the last administrator.
func (s store) setAdministrator(ctx context.Context, u User, administrator bool) (bool, error) {
	e := audit.Event{
		Action: "user.revoke", Subject: u.Name,
		Before: map[string]any{"administrator": u.Administrator}, After: map[string]any{"administrator": administrator},
	}
	if administrator {
		e.Action = "user.grant"
	}
	return s.audit.Change(ctx, e, func(t *sql.Tx) (bool, error) {
		if err := lockAdministrators(ctx, t); err != nil {
			return false, err
		}
		if administrator {
			return s.db.Changed(t.ExecContext(ctx, `UPDATE platform_users SET administrator = true, administrator_by_group = false WHERE id = $1`, u.ID))
		}
		return s.db.Changed(t.ExecContext(ctx, `UPDATE platform_users SET administrator = false, administrator_by_group = false WHERE id = $1`+notLastAdministrator, u.ID))
	})
}

// administrateByGroup grants the role of administrator because of a group, or revokes a role
// that a group has granted. The last administrator keeps the role.
func (s store) administrateByGroup(ctx context.Context, u User, administrator bool) error {
	if u.Administrator == administrator {
		return nil
	}
	e := audit.Event{
		Action: "user.revoke", Subject: u.Name,
		Before: map[string]any{"administrator": !administrator}, After: map[string]any{"administrator": administrator, "byGroup": true},
	}
	if administrator {
		e.Action = "user.grant"
	}
	_, err := s.audit.Change(ctx, e, func(t *sql.Tx) (bool, error) {
		if administrator {
			return s.db.Changed(t.ExecContext(ctx, `
				UPDATE platform_users SET administrator = true, administrator_by_group = true WHERE id = $1 AND NOT administrator`, u.ID))
		}
		if err := lockAdministrators(ctx, t); err != nil {
			return false, err
		}
		return s.db.Changed(t.ExecContext(ctx, `
			UPDATE platform_users SET administrator = false, administrator_by_group = false WHERE id = $1 AND administrator_by_group`+notLastAdministrator, u.ID))
	})
	return err
}

// disableUser sets the time since when a user is disabled; a zero time enables the user. It
// deletes the user's pending codes. It returns false, without a change, if it would disable the
// last administrator.
func (s store) disableUser(ctx context.Context, u User, at time.Time) (bool, error) {
	e := audit.Event{
		Action: "user.enable", Subject: u.Name,
		Before: map[string]any{"disabled": !u.Disabled.IsZero()}, After: map[string]any{"disabled": !at.IsZero()},
	}
	if !at.IsZero() {
		e.Action = "user.disable"
	}
	return s.audit.Change(ctx, e, func(t *sql.Tx) (bool, error) {
		if err := lockAdministrators(ctx, t); err != nil {
			return false, err
		}
		if _, err := t.ExecContext(ctx, `DELETE FROM platform_codes WHERE user_id = $1`, u.ID); err != nil {
			return false, err
		}
		if at.IsZero() {
			return s.db.Changed(t.ExecContext(ctx, `UPDATE platform_users SET disabled_at = 0 WHERE id = $1`, u.ID))
		}
		return s.db.Changed(t.ExecContext(ctx, `UPDATE platform_users SET disabled_at = $2 WHERE id = $1`+notLastAdministrator, u.ID, sqldb.Micros(at)))
	})
}

// errNoAdministrator is returned by deleteUser for the last administrator.
var errNoAdministrator = errors.New("the last administrator")

// deleteUser deletes a user and the rows that belong to the user only. If an organisation would
// have no owner left, it deletes nothing and returns the name of that organisation. It calls revoke
// in the same transaction, and appends the audit events that it returns.
func (s store) deleteUser(ctx context.Context, u User, revoke func(*sql.Tx) ([]audit.Event, error)) (orphan string, err error) {
	id := u.ID
	err = s.db.Tx(ctx, func(t *sql.Tx) error {
		if err := lockAdministrators(ctx, t); err != nil {
			return err
		}
		var others int
		err := t.QueryRowContext(ctx, `SELECT count(*) FROM platform_users WHERE id = $1`+notLastAdministrator, id).Scan(&others)
		if err != nil {
			return err
		}
		if others == 0 {
			return errNoAdministrator
		}
		// This serializes changes of the owners of the user's organisations.
		if _, err := t.ExecContext(ctx, `UPDATE platform_orgs SET created_at = created_at WHERE id IN (SELECT org_id FROM platform_members WHERE user_id = $1)`, id); err != nil {
			return err
		}
		err = t.QueryRowContext(ctx, `
			SELECT coalesce(min(o.name), '') FROM platform_orgs o JOIN platform_members m ON m.org_id = o.id
			WHERE m.user_id = $1 AND m.role = 'owner' AND NOT EXISTS (
				SELECT 1 FROM platform_members n WHERE n.org_id = o.id AND n.role = 'owner' AND n.user_id <> $1)`, id).Scan(&orphan)
		if err != nil || orphan != "" {
			return err
		}
		for _, text := range []string{
			`DELETE FROM platform_credentials WHERE user_id = $1 AND workspace_id = 0`,
			`DELETE FROM platform_workflows WHERE space_user = $1 AND workspace_id = 0`,
			`DELETE FROM platform_tokens WHERE user_id = $1`, `DELETE FROM platform_codes WHERE user_id = $1`,
			`DELETE FROM platform_sessions WHERE user_id = $1`, `DELETE FROM platform_logins WHERE user_id = $1`,
			`DELETE FROM platform_participants WHERE user_id = $1`, `DELETE FROM platform_members WHERE user_id = $1`,
			`DELETE FROM platform_users WHERE id = $1`,
		} {
			if _, err := t.ExecContext(ctx, text, id); err != nil {
				return err
			}
		}
		events, err := revoke(t)
		if err != nil {
			return err
		}
		return s.audit.AppendAll(ctx, t, append(events, audit.Event{Action: "user.delete", Subject: u.Name, Before: map[string]any{
			"id": u.ID, "email": u.Email, "administrator": u.Administrator,
		}}))
	})
	return orphan, err
}
