// Package federation is how platforms work together: this one asks those that it
// trusts about their users and credentials, with the tokens that the users delegate to
// it, and lets services that an operator has paired read the credentials here. It
// writes the tables platform_grants, platform_peers and platform_pairings.
package federation

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/upstream"
	"slipway.dev/services/platform/audit"
	"slipway.dev/services/platform/credentials"
	"slipway.dev/services/platform/orgs"
	"slipway.dev/services/platform/vault"
)

// identityTTL is how long it is remembered whose a token is, in memory only.
const identityTTL = 5 * time.Minute

// Trusted is other platforms, which are trusted about their users
// (gateway/contract/platform.md#foreign-platforms). The zero value is none.
type Trusted struct {
	// Endpoints are their base URLs, without a slash at the end.
	Endpoints []string
	// Operators are accounts that may pair with them, by host or host/path.
	Operators map[string]upstream.Login
	// Transport reaches them, within the egress rules.
	Transport http.RoundTripper
}

// Records opens the credentials that are kept here; fault.NotFound, fault.Invalid.
type Records interface {
	Reveal(ctx context.Context, p orgs.Principal, id string) (credentials.RegistryKeys, error)
}

// Deps is what the service works with.
type Deps struct {
	DB *sqldb.DB
	// Trusted is other platforms that are trusted.
	Trusted Trusted
	Records Records
	// Keys seal; nil trusts nobody.
	Keys  *vault.Keys
	Trail audit.Trail
	// Now is the clock.
	Now func() time.Time
}

// Service asks other platforms about their users, and answers those that are paired
// with this one. Make it with New.
type Service struct {
	Trusted
	store      store
	records    Records
	trail      audit.Trail
	keys       *vault.Keys
	now        func() time.Time
	client     *http.Client
	identities *memory[*platformv1.Identity]
	logins     *memory[upstream.Access]
	lists      *memory[[]foreignRecord]
}

// store is the tables of this package.
type store struct{ db *sqldb.DB }

// SealedTables are those with sealed rows.
func SealedTables() []string { return []string{"platform_grants", "platform_peers"} }

// New makes the service. The tables must be there.
func New(d Deps) *Service {
	return &Service{
		Trusted: d.Trusted, store: store{d.DB}, records: d.Records, trail: d.Trail, keys: d.Keys, now: d.Now,
		client: &http.Client{
			Transport:     d.Trusted.Transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		identities: newMemory[*platformv1.Identity](identityTTL, d.Now),
		logins:     newMemory[upstream.Access](credentials.LoginTTL, d.Now),
		lists:      newMemory[[]foreignRecord](credentials.LoginTTL, d.Now),
	}
}

// Sweep removes pairings that have ended, and tokens that nobody uses any more.
func (f *Service) Sweep(ctx context.Context) error {
	now := f.now()
	return errors.Join(f.store.deletePairings(ctx, now), f.store.deleteUnused(ctx, now.Add(-delegatedTTL)))
}

// keyOf names something secret without keeping it.
func keyOf(parts ...any) string {
	h := sha256.New()
	for _, p := range parts {
		_, _ = fmt.Fprintf(h, "%v\x00", p) // a hash takes everything
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Trusts checks that an endpoint is a platform that is trusted.
func (f *Service) Trusts(endpoint, own string) error {
	if !slices.Contains(f.Endpoints, endpoint) {
		return fault.Invalid.Newf("platformEndpoint %q is not a platform that this service trusts; its own is %s", endpoint, own)
	}
	if f.keys == nil {
		return fault.Unsupported.Newf("Other platforms are switched off: this one has no master_key_file")
	}
	return nil
}

// Authorize says whose token it is, and keeps it for what is done in that user's
// name later on.
func (f *Service) Authorize(ctx context.Context, req *platformv1.AuthorizeRequest, endpoint string) (*platformv1.Identity, error) {
	key := keyOf(endpoint, req.GetAccessToken(), req.GetWorkspaceId())
	found, err := f.identities.get(ctx, key, func(ctx context.Context) (*platformv1.Identity, error) {
		g := newDelegatedToken(endpoint, req.GetAccessToken(), req.GetRefreshToken())
		var id *platformv1.Identity
		err := f.as(ctx, &g, func(access string) (err error) {
			id, err = f.identify(ctx, endpoint, access, req.GetWorkspaceId())
			return err
		})
		if err != nil {
			return nil, err
		}
		g.userID = id.GetUserId()
		return id, f.keep(ctx, g)
	})
	return found.value, err
}

// identify asks who a token belongs to, and whether the workspace may be entered.
func (f *Service) identify(ctx context.Context, endpoint, access string, workspace int64) (*platformv1.Identity, error) {
	var answer struct {
		User struct {
			ID       int64  `json:"id"`
			UserName string `json:"userName"`
			Email    string `json:"email"`
		} `json:"user"`
	}
	if err := f.get(ctx, endpoint, "/user-info", access, nil, &answer); err != nil {
		return nil, err
	}
	if answer.User.ID < 1 {
		return nil, odd(endpoint, errors.New("/user-info names no user"))
	}
	if workspace != 0 {
		var ignored struct{}
		err := f.get(ctx, endpoint, "/credentials", access, inWorkspace(workspace), &ignored)
		if errors.Is(err, fault.Unauthenticated) {
			return nil, fault.Denied.New("No such workspace, or you are not a participant in it", err)
		}
		if err != nil {
			return nil, err
		}
	}
	return &platformv1.Identity{
		Endpoint: endpoint, UserId: answer.User.ID, UserName: answer.User.UserName, Email: answer.User.Email, WorkspaceId: workspace,
	}, nil
}

// forUser lets ask try the tokens that a user has used lately, newest first, until
// one is good.
func (f *Service) forUser(ctx context.Context, id *platformv1.Identity, ask func(access string) error) error {
	tokens, err := f.store.delegatedOf(ctx, id.GetEndpoint(), id.GetUserId())
	if err != nil {
		return fmt.Errorf("reading the tokens of a user of %s: %w", id.GetEndpoint(), err)
	}
	refusal := error(fault.Denied.Newf("The platform %s lets this user in no more; ask for the image again", id.GetEndpoint()))
	for _, g := range tokens {
		if err := f.open(&g); err != nil {
			return err
		}
		switch err := f.as(ctx, &g, ask); {
		case errors.Is(err, fault.Unauthenticated):
			refusal = fault.Denied.New("The platform "+id.GetEndpoint()+" refuses this user, or the workspace", err)
		case err != nil:
			return err
		default:
			return f.keep(ctx, g)
		}
	}
	return refusal
}

// RunStatus is a run's status as its platform says it; "" where it gives none.
func (f *Service) RunStatus(ctx context.Context, id *platformv1.Identity, workflow string) (string, error) {
	var answer struct {
		Workflow struct {
			Status string `json:"status"`
		} `json:"workflow"`
	}
	err := f.forUser(ctx, id, func(access string) error {
		return f.get(ctx, id.GetEndpoint(), "/workflow/"+workflow, access, inWorkspace(id.GetWorkspaceId()), &answer)
	})
	if errors.Is(err, fault.Denied) {
		return "", nil
	}
	return answer.Workflow.Status, err
}
