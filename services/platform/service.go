// Package platform owns users and their access tokens, and says which registry
// credentials are whose. It never pulls an image. The truth is the tables
// platform_*; of a token only a hash is kept. So far there is one user, who
// comes from configuration.
package platform

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/upstream"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrations are this room's changes of the schema, for sqldb.DB.Migrate.
func Migrations() fs.FS {
	sub, err := fs.Sub(migrations, "migrations")
	if err != nil {
		panic(err) // the folder is compiled in
	}
	return sub
}

// Deps is what the service works with.
type Deps struct {
	DB *sqldb.DB
	// Endpoint is the platform's own public address, without a slash at the end.
	Endpoint string
	// AdminLogins are the first user's credentials, by registry host or host/path.
	AdminLogins map[string]upstream.Login
	// Now is the clock.
	Now func() time.Time
}

// Service implements platformv1.PlatformServiceServer. Make it with New.
type Service struct {
	platformv1.UnimplementedPlatformServiceServer
	store store
	deps  Deps
}

// New makes the service. The tables must be there.
func New(d Deps) *Service { return &Service{store: store{d.DB}, deps: d} }

// Admin is the first user.
type Admin struct {
	Email string
	// Token is the access token to have; "" makes one if the user has none.
	Token string
}

// EnsureAdmin makes the first user, or brings e-mail and token up to date. It
// answers the token when it had to make one, else "".
func (s *Service) EnsureAdmin(ctx context.Context, a Admin) (made string, err error) {
	now := s.deps.Now()
	if err := s.store.upsertUser(ctx, user{ID: adminID, Name: "admin", Email: a.Email}, now); err != nil {
		return "", fmt.Errorf("writing the first user: %w", err)
	}
	if a.Token != "" {
		t, err := parseToken(a.Token)
		if err != nil {
			return "", fmt.Errorf("the first user's token: %w", err)
		}
		return "", s.store.putToken(ctx, t, adminID, "configured", now)
	}
	has, err := s.store.hasToken(ctx, adminID)
	if err != nil || has {
		return "", err
	}
	t := newToken(1)
	return t.String(), s.store.putToken(ctx, t, adminID, "first", now)
}

// adminID is the first user's id.
const adminID = 1

// Authorize says who an access token belongs to.
func (s *Service) Authorize(ctx context.Context, req *platformv1.AuthorizeRequest) (*platformv1.AuthorizeResponse, error) {
	t, err := parseToken(req.GetAccessToken())
	if err != nil {
		return nil, refused(err)
	}
	rec, err := s.store.token(ctx, t.id)
	if errors.Is(err, fault.NotFound) {
		return nil, refused(err)
	}
	if err != nil {
		return nil, fmt.Errorf("reading token %d: %w", t.id, err)
	}
	if !t.matches(rec.secretHash) {
		return nil, refused(errors.New("wrong secret"))
	}
	if err := checkWorkspace(req.GetWorkspaceId()); err != nil {
		return nil, err
	}
	return &platformv1.AuthorizeResponse{Identity: &platformv1.Identity{
		Endpoint: s.deps.Endpoint,
		UserId:   rec.user.ID,
		UserName: rec.user.Name,
		Email:    rec.user.Email,
	}}, nil
}

func refused(cause error) error {
	return fault.Unauthenticated.New("The access token is not valid", cause)
}

// checkWorkspace knows that there are no workspaces but the personal ones yet.
func checkWorkspace(id int64) error {
	if id != 0 {
		return fault.Denied.Newf("The user is no member of workspace %d", id)
	}
	return nil
}

// GetCredentials answers a user's login at one registry.
func (s *Service) GetCredentials(ctx context.Context, req *platformv1.GetCredentialsRequest) (*platformv1.GetCredentialsResponse, error) {
	id := req.GetIdentity()
	if id.GetEndpoint() != s.deps.Endpoint {
		return nil, fault.Denied.Newf("The user belongs to another platform")
	}
	if err := checkWorkspace(id.GetWorkspaceId()); err != nil {
		return nil, err
	}
	if id.GetUserId() != adminID {
		return nil, fault.Denied.Newf("There is no user %d", id.GetUserId())
	}
	l, ok := s.deps.AdminLogins[req.GetRegistry()]
	if !ok {
		return &platformv1.GetCredentialsResponse{}, nil
	}
	return &platformv1.GetCredentialsResponse{
		Credentials: &platformv1.Credentials{Username: l.Username, Password: l.Password},
	}, nil
}
