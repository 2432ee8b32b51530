package identity

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/platform/api"
)

// A usedUser is a user and the time of the last use of the user's tokens and sessions.
type usedUser struct {
	User
	used time.Time
}

func (u usedUser) toProto() *platformv1.Account {
	return &platformv1.Account{
		Id: float64(u.ID), UserName: u.Name, Email: u.Email, FirstName: u.FirstName, LastName: u.LastName,
		Administrator: u.Administrator, Disabled: !u.Disabled.IsZero(), DateCreated: api.Timestamp(u.Created), LastUsed: api.Timestamp(u.used),
	}
}

// ListAccounts returns a page of all users.
func (s *Service) ListAccounts(ctx context.Context, req *platformv1.ListAccountsRequest) (*platformv1.ListAccountsResponse, error) {
	page, err := api.ReadPage(req)
	if err != nil {
		return nil, err
	}
	list, total, err := s.store.usedUsers(ctx, page)
	if err != nil {
		return nil, fmt.Errorf("reading the users: %w", err)
	}
	resp := &platformv1.ListAccountsResponse{TotalSize: int32(total)}
	for _, u := range list {
		resp.Users = append(resp.Users, u.toProto())
	}
	return resp, nil
}

// CreateAccount creates a user, as CreateUser does.
func (s *Service) CreateAccount(ctx context.Context, req *platformv1.CreateAccountRequest) (*platformv1.CreateAccountResponse, error) {
	spec := req.GetUser()
	a, err := s.CreateUser(ctx, Account{Name: spec.GetUserName(), Email: spec.GetEmail(), FirstName: spec.GetFirstName(), LastName: spec.GetLastName()})
	if err != nil {
		return nil, err
	}
	u, err := s.account(ctx, a.ID)
	return &platformv1.CreateAccountResponse{User: u.toProto()}, err
}

// UpdateAccount disables or enables a user, and grants or revokes the role of an administrator.
// If a request changes both, the role is revoked before and granted after the other change.
func (s *Service) UpdateAccount(ctx context.Context, req *platformv1.UpdateAccountRequest) (*platformv1.UpdateAccountResponse, error) {
	u, err := s.account(ctx, req.GetUserId())
	if err != nil {
		return nil, err
	}
	change := req.GetChange()
	if change.Administrator != nil && !change.GetAdministrator() {
		err = s.setAdministrator(ctx, u.User, false)
	}
	if err == nil && change.Disabled != nil && change.GetDisabled() != !u.Disabled.IsZero() {
		at := time.Time{}
		if change.GetDisabled() {
			at = s.deps.Now()
		}
		err = s.setDisabled(ctx, u.Name, at)
	}
	if err == nil && change.GetAdministrator() {
		if u, err = s.account(ctx, u.ID); err == nil {
			err = s.setAdministrator(ctx, u.User, true)
		}
	}
	if err != nil {
		return nil, err
	}
	u, err = s.account(ctx, u.ID)
	return &platformv1.UpdateAccountResponse{User: u.toProto()}, err
}

// DeleteAccount deletes a user, as DeleteUser does.
func (s *Service) DeleteAccount(ctx context.Context, req *platformv1.DeleteAccountRequest) (*platformv1.DeleteAccountResponse, error) {
	u, err := s.account(ctx, req.GetUserId())
	if err != nil {
		return nil, err
	}
	return &platformv1.DeleteAccountResponse{}, s.DeleteUser(ctx, u.Name)
}

// account returns the user with an id, or fault.NotFound.
func (s *Service) account(ctx context.Context, id int64) (usedUser, error) {
	u, err := s.store.usedUser(ctx, id)
	if err != nil && !errors.Is(err, fault.NotFound) {
		err = fmt.Errorf("reading user %d: %w", id, err)
	}
	return u, err
}

// usedColumns are the columns of a usedUser.
const usedColumns = UserColumns + `, (SELECT coalesce(max(t.used_at), 0) FROM platform_tokens t WHERE t.user_id = u.id),
	(SELECT coalesce(max(s.used_at), 0) FROM platform_sessions s WHERE s.user_id = u.id)`

func (u *usedUser) scan(scan func(...any) error) error {
	var token, session time.Time
	err := scan(append(u.Into(), sqldb.ScanTime(&token), sqldb.ScanTime(&session))...)
	u.used = token
	if session.After(token) {
		u.used = session
	}
	return err
}

func (s store) usedUser(ctx context.Context, id int64) (u usedUser, err error) {
	err = u.scan(s.db.QueryRowContext(ctx, `SELECT `+usedColumns+` FROM platform_users u WHERE u.id = $1`, id).Scan)
	return u, s.db.NotFound("user", err)
}

func (s store) usedUsers(ctx context.Context, p sqldb.Page) ([]usedUser, int, error) {
	const from = ` FROM platform_users u WHERE lower(u.user_name || ' ' || u.email) LIKE $1 ESCAPE '\'`
	return sqldb.Listing[usedUser]{
		Count: `SELECT count(*)` + from,
		Read:  `SELECT ` + usedColumns + from + ` ORDER BY u.user_name LIMIT $2 OFFSET $3`,
		Scan:  func(r *sql.Rows) (u usedUser, err error) { return u, u.scan(r.Scan) },
	}.Page(ctx, s.db, p, p.Like)
}
