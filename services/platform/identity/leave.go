package identity

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
)

// DisableUser lets a user in no more: neither their tokens nor their sessions work
// from now on, and they cannot sign in. What is theirs stays; EnableUser lets them in
// again, with the tokens they had.
func (s *Service) DisableUser(ctx context.Context, userName string) error {
	return s.setDisabled(ctx, userName, s.deps.Now())
}

// EnableUser undoes DisableUser.
func (s *Service) EnableUser(ctx context.Context, userName string) error {
	return s.setDisabled(ctx, userName, time.Time{})
}

func (s *Service) setDisabled(ctx context.Context, userName string, at time.Time) error {
	u, err := s.leaver(ctx, userName)
	if err != nil {
		return err
	}
	if err := s.store.disableUser(ctx, u.ID, at); err != nil {
		return fmt.Errorf("writing user %s: %w", userName, err)
	}
	return nil
}

// DeleteUser removes a user with their tokens, sessions, memberships and personal
// credentials, at once. What they did for others stays, under their number. fault.Conflict
// for the last owner of an organisation.
func (s *Service) DeleteUser(ctx context.Context, userName string) error {
	u, err := s.leaver(ctx, userName)
	if err != nil {
		return err
	}
	orphan, err := s.store.deleteUser(ctx, u.ID)
	if err != nil {
		return fmt.Errorf("deleting user %s: %w", userName, err)
	}
	if orphan != "" {
		return fault.Conflict.Newf("%s is the last owner of the organisation %s: make somebody else its owner first, or delete it", userName, orphan)
	}
	return nil
}

// leaver is a user who may be shut out. The first user may not: admin_token_file, or
// the token in data_dir, is theirs.
func (s *Service) leaver(ctx context.Context, userName string) (User, error) {
	u, err := s.UserByName(ctx, userName)
	if err == nil && u.ID == AdminID {
		err = fault.Invalid.Newf("%s is the first user, whom the server lets in by its settings: change their token instead (slipwayd token revoke)", userName)
	}
	return u, err
}

// disableUser notes since when; a zero time is not at all. Codes on their way end.
func (s store) disableUser(ctx context.Context, id int64, at time.Time) error {
	return s.db.Tx(ctx, func(t *sql.Tx) error {
		if _, err := t.ExecContext(ctx, `DELETE FROM platform_codes WHERE user_id = $1`, id); err != nil {
			return err
		}
		_, err := t.ExecContext(ctx, `UPDATE platform_users SET disabled_at = $2 WHERE id = $1`, id, sqldb.Micros(at))
		return err
	})
}

// deleteUser removes a user and what is theirs alone, and nothing where an
// organisation would have no owner left: that one it answers.
func (s store) deleteUser(ctx context.Context, id int64) (orphan string, err error) {
	err = s.db.Tx(ctx, func(t *sql.Tx) error {
		// Changes of their organisations' owners go one after the other.
		if _, err := t.ExecContext(ctx, `UPDATE platform_orgs SET created_at = created_at WHERE id IN (SELECT org_id FROM platform_members WHERE user_id = $1)`, id); err != nil {
			return err
		}
		err := t.QueryRowContext(ctx, `
			SELECT coalesce(min(o.name), '') FROM platform_orgs o JOIN platform_members m ON m.org_id = o.id
			WHERE m.user_id = $1 AND m.role = 'owner' AND NOT EXISTS (
				SELECT 1 FROM platform_members n WHERE n.org_id = o.id AND n.role = 'owner' AND n.user_id <> $1)`, id).Scan(&orphan)
		if err != nil || orphan != "" {
			return err
		}
		for _, text := range []string{
			`DELETE FROM platform_credentials WHERE user_id = $1 AND workspace_id = 0`,
			`DELETE FROM platform_tokens WHERE user_id = $1`, `DELETE FROM platform_codes WHERE user_id = $1`,
			`DELETE FROM platform_sessions WHERE user_id = $1`, `DELETE FROM platform_logins WHERE user_id = $1`,
			`DELETE FROM platform_participants WHERE user_id = $1`, `DELETE FROM platform_members WHERE user_id = $1`,
			`DELETE FROM platform_users WHERE id = $1`,
		} {
			if _, err := t.ExecContext(ctx, text, id); err != nil {
				return err
			}
		}
		return nil
	})
	return orphan, err
}
