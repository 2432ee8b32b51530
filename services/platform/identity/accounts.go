package identity

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/mail"
	"regexp"
	"strings"
	"time"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/platform/api"
	"slipway.dev/services/platform/audit"
)

// An Account describes a user for the command line.
type Account struct {
	ID int64
	// Name is the short name, e.g. "ada".
	Name string
	// Email is the e-mail address.
	Email string
	// FirstName and LastName may be empty.
	FirstName, LastName string
	// Disabled users cannot sign in, and their tokens are refused.
	Disabled bool
	// Administrator reports whether the user may make the calls for administrators.
	Administrator bool
}

// userNameForm matches lower-case letters and digits, with single - _ . between them.
var userNameForm = regexp.MustCompile(`^[a-z0-9]+([-_.][a-z0-9]+)*$`)

// CreateUser creates a user without a token and returns the account with its new id. It returns
// fault.Conflict if the name or the address is taken, and fault.Invalid for invalid fields.
// The user gets the roles of the invitations of the address.
func (s *Service) CreateUser(ctx context.Context, a Account) (Account, error) {
	return s.createUser(ctx, a, false)
}

// createUser is CreateUser. If invitedOnly is set, it returns fault.NotFound, and creates no user,
// unless the user gets a role of an invitation.
func (s *Service) createUser(ctx context.Context, a Account, invitedOnly bool) (Account, error) {
	if len(a.Name) > 40 || !userNameForm.MatchString(a.Name) {
		return a, fault.Invalid.Newf("The user name must have up to 40 lower-case letters and digits, with single - _ . between them")
	}
	if err := checkEmail(a.Email); err != nil {
		return a, err
	}
	if err := errors.Join(api.CheckLength("first name", a.FirstName, 100), api.CheckLength("last name", a.LastName, 100)); err != nil {
		return a, err
	}
	a.ID = api.NewID()
	u := User{ID: a.ID, Name: a.Name, Email: a.Email, FirstName: a.FirstName, LastName: a.LastName}
	created, err := s.store.insertUser(ctx, u, s.deps.Now(), func(t *sql.Tx) ([]audit.Event, error) {
		accepted, err := s.acceptInvitationsIn(ctx, t, u)
		switch {
		case err != nil || !invitedOnly || accepted.Granted:
		case accepted.Full:
			err = fault.Denied.Newf("You are invited, but the organisation or workspace has as many users as are allowed; ask an owner to remove unused ones")
		default:
			err = fault.NotFound.Newf("The invitation of %s is used, revoked or no longer valid", a.Email)
		}
		return accepted.Events, err
	})
	if err != nil {
		return a, fmt.Errorf("writing user %s: %w", a.Name, err)
	}
	if !created {
		return a, fault.Conflict.Newf("There is a user with that name or e-mail address already").WithCode(fault.ObjectTaken)
	}
	// An invitation that was stored at the same time may not have seen the user, nor the user it.
	s.acceptInvitations(ctx, u, u.Email)
	return a, nil
}

// checkEmail returns fault.Invalid unless s is an e-mail address without a name.
func checkEmail(s string) error {
	if at, err := mail.ParseAddress(s); err != nil || at.Address != s || len(s) > 200 {
		return fault.Invalid.New("Invalid e-mail address", err)
	}
	return nil
}

// Users returns all users, ordered by name.
func (s *Service) Users(ctx context.Context) ([]Account, error) {
	list, err := s.store.users(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the users: %w", err)
	}
	out := make([]Account, len(list))
	for i, u := range list {
		out[i] = Account{
			ID: u.ID, Name: u.Name, Email: u.Email, FirstName: u.FirstName, LastName: u.LastName, Disabled: !u.Disabled.IsZero(), Administrator: u.Administrator,
		}
	}
	return out, nil
}

// A NewToken describes an access token for the command line.
type NewToken struct {
	Name string
	// Expires is zero for a token that never expires.
	Expires time.Time
	// Scopes and Repositories restrict the token; empty means all.
	Scopes, Repositories []string
}

// CreateTokenFor creates an access token for the user with a name or e-mail address, and
// returns it. The token is secret. A zero Expires means that it never expires; without
// Scopes and Repositories it has all rights of the user. It returns fault.Invalid for an unknown
// user or scope, or a malformed repository.
func (s *Service) CreateTokenFor(ctx context.Context, userName string, spec NewToken) (string, error) {
	restriction, err := readRestriction(spec.Scopes, spec.Repositories, 0)
	if err != nil {
		return "", err
	}
	u, err := s.UserByName(ctx, userName)
	if err != nil {
		return "", err
	}
	if !u.Disabled.IsZero() {
		return "", fault.Invalid.Newf("%s is disabled, so a token would not work; enable the user first: `slipwayd user enable --name %s`", userName, u.Name)
	}
	t, _, err := s.createToken(ctx, tokenRecord{user: u, name: spec.Name, expires: spec.Expires, restriction: restriction})
	if err != nil {
		return "", err
	}
	return t.String(), nil
}

// RevokeTokens deletes all tokens and sessions of a user, with immediate effect.
func (s *Service) RevokeTokens(ctx context.Context, userName string) error {
	u, err := s.UserByName(ctx, userName)
	if err != nil {
		return err
	}
	if err := s.store.deleteTokens(ctx, u); err != nil {
		return fmt.Errorf("deleting the tokens of %s: %w", userName, err)
	}
	return nil
}

// UserByName returns the user with a name or e-mail address, or fault.Invalid.
func (s *Service) UserByName(ctx context.Context, name string) (User, error) {
	if err := api.CheckLength("the user", name, 200); err != nil {
		return User{}, err
	}
	u, err := s.store.userByName(ctx, name)
	if errors.Is(err, fault.NotFound) {
		return User{}, fault.Invalid.Newf("No such user: %q", name)
	}
	if err != nil {
		return User{}, fmt.Errorf("reading user %s: %w", name, err)
	}
	return u, nil
}

// UserOrAddress returns the user with a name or e-mail address. The case of ASCII letters in
// addresses is ignored. If no user has the address, it returns no user but the AddressKey of the
// address. It returns fault.Invalid for other names, for an address that several users have, and
// for one that cannot be invited: without a sign-in provider no address can be.
func (s *Service) UserOrAddress(ctx context.Context, name string) (u User, address string, err error) {
	u, err = s.UserByName(ctx, name)
	if !errors.Is(err, fault.Invalid) || checkEmail(name) != nil {
		return u, "", err
	}
	list, lookupErr := usersWithEmail(ctx, s.deps.DB, name)
	switch {
	case lookupErr != nil:
		return User{}, "", fmt.Errorf("looking up an address: %w", s.deps.DB.Wrap(lookupErr))
	case len(list) == 1:
		return list[0], "", nil
	case len(list) > 1:
		return User{}, "", fault.Invalid.Newf("Several users have the address %q; name one of them by user name", name)
	case s.oidc.Issuer == "":
		return User{}, "", err
	}
	return User{}, AddressKey(name), checkInvited(name)
}

// checkInvited returns fault.Invalid unless all characters of an address are printable ASCII
// characters: other characters can look like those of another address.
func checkInvited(address string) error {
	if strings.ContainsFunc(address, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fault.Invalid.Newf("An invited address must have ASCII characters only, without spaces: write the domain as xn--…, or ask an operator to create the user")
	}
	return nil
}

// HasUser reports whether an id belongs to a robot, or to a user who is not disabled.
func (s *Service) HasUser(ctx context.Context, id int64) (bool, error) {
	has, err := s.store.hasUser(ctx, id)
	if err != nil {
		return false, fmt.Errorf("reading user %d: %w", id, err)
	}
	return has, nil
}
