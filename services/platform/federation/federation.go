// Package federation connects this platform with others. As a client, it reads the users,
// credentials and runs of the other platforms that it trusts, with access tokens that their
// users have delegated to it. As a server, it returns credentials of this platform, encrypted,
// to services that an operator has paired with it. It writes the tables platform_grants,
// platform_peers and platform_pairings. Delegated tokens and private keys are stored
// encrypted.
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

// identityTTL is how long the owner of a token is cached, in memory only.
const identityTTL = 5 * time.Minute

// Trusted lists the other platforms that are trusted to identify their users
// (gateway/contract/platform.md#foreign-platforms). The zero value trusts none.
type Trusted struct {
	// Endpoints are the base URLs of the platforms, without a slash at the end.
	Endpoints []string
	// Operators are the operator accounts for pairing with the platforms, by host or
	// host/path.
	Operators map[string]upstream.Login
	// Transport sends the requests and enforces the egress rules.
	Transport http.RoundTripper
}

// Records reads the credentials of this platform.
type Records interface {
	// Reveal returns the secrets of a record; fault.NotFound if there is no such record,
	// fault.Invalid if it is not for a registry.
	Reveal(ctx context.Context, p orgs.Principal, id string) (credentials.RegistryKeys, error)
}

// Deps are the dependencies of a Service.
type Deps struct {
	DB      *sqldb.DB
	Trusted Trusted
	Records Records
	// Keys encrypts tokens and private keys. If it is nil, no other platform is trusted.
	Keys  *vault.Keys
	Audit audit.Log
	// Now returns the current time.
	Now func() time.Time
}

// Service is a client of other platforms, and implements the calls of paired services. Create
// it with New.
type Service struct {
	Trusted
	store      store
	records    Records
	audit      audit.Log
	keys       *vault.Keys
	now        func() time.Time
	client     *http.Client
	identities *cache[*platformv1.Identity]
	logins     *cache[upstream.Access]
	lists      *cache[[]foreignRecord]
}

// store accesses the tables of this package.
type store struct{ db *sqldb.DB }

// SealedTables returns the tables whose rows contain envelopes.
func SealedTables() []string { return []string{"platform_grants", "platform_peers"} }

// New returns a Service. The tables must exist.
func New(d Deps) *Service {
	return &Service{
		Trusted: d.Trusted, store: store{d.DB}, records: d.Records, audit: d.Audit, keys: d.Keys, now: d.Now,
		client: &http.Client{
			Transport:     d.Trusted.Transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		identities: newCache[*platformv1.Identity](identityTTL, d.Now),
		logins:     newCache[upstream.Access](credentials.LoginTTL, d.Now),
		lists:      newCache[[]foreignRecord](credentials.LoginTTL, d.Now),
	}
}

// Sweep deletes expired pairings, and delegated tokens that have not been used for
// delegatedTTL.
func (f *Service) Sweep(ctx context.Context) error {
	now := f.now()
	return errors.Join(f.store.deletePairings(ctx, now), f.store.deleteUnused(ctx, now.Add(-delegatedTTL)))
}

// keyOf returns a key for values that may be secret, by hashing them.
func keyOf(parts ...any) string {
	h := sha256.New()
	for _, p := range parts {
		_, _ = fmt.Fprintf(h, "%v\x00", p) // never fails
	}
	return hex.EncodeToString(h.Sum(nil))
}

// CheckTrusted returns fault.Invalid unless endpoint is a trusted platform. own is this
// platform's endpoint for the message.
func (f *Service) CheckTrusted(endpoint, own string) error {
	if !slices.Contains(f.Endpoints, endpoint) {
		return fault.Invalid.Newf("platformEndpoint %q is not a platform that this service trusts; its own is %s", endpoint, own)
	}
	if f.keys == nil {
		return fault.Unsupported.Newf("Other platforms are disabled: this platform has no master_key_file")
	}
	return nil
}

// Authorize returns the owner of an access token, and stores the token for later requests on
// the user's behalf.
func (f *Service) Authorize(ctx context.Context, req *platformv1.AuthorizeRequest, endpoint string) (*platformv1.Identity, error) {
	key := keyOf(endpoint, req.GetAccessToken(), req.GetWorkspaceId())
	found, err := f.identities.get(ctx, key, func(ctx context.Context) (*platformv1.Identity, error) {
		g := newDelegatedToken(endpoint, req.GetAccessToken(), req.GetRefreshToken())
		var id *platformv1.Identity
		err := f.withToken(ctx, &g, func(access string) (err error) {
			id, err = f.identify(ctx, endpoint, access, req.GetWorkspaceId())
			return err
		})
		if err != nil {
			return nil, err
		}
		g.userID = id.GetUserId()
		return id, f.save(ctx, g)
	})
	return found.value, err
}

// identify fetches the owner of an access token from a platform. It returns fault.Denied if the
// user has no access to the workspace.
func (f *Service) identify(ctx context.Context, endpoint, access string, workspace int64) (*platformv1.Identity, error) {
	var result struct {
		User struct {
			ID       int64  `json:"id"`
			UserName string `json:"userName"`
			Email    string `json:"email"`
		} `json:"user"`
		// Token is the restriction of the token. Only platforms that run this program report it.
		Token struct {
			Scopes       []string `json:"scopes"`
			WorkspaceID  int64    `json:"workspaceId"`
			Repositories []string `json:"repositories"`
		} `json:"token"`
	}
	if err := f.get(ctx, endpoint, "/user-info", access, nil, &result); err != nil {
		return nil, err
	}
	if result.User.ID < 1 {
		// Some platforms return 200 and {} for an unknown token.
		return nil, fault.Unauthenticated.New("The platform "+endpoint+" does not know the access token; sign in there again", errors.New("/user-info returns no user"))
	}
	if len(result.Token.Scopes) > 0 || result.Token.WorkspaceID != 0 || len(result.Token.Repositories) > 0 {
		return nil, fault.Denied.Newf("Access tokens with scopes, of one workspace or of some repositories only work at the platform that issued them, %s", endpoint).WithCode(fault.TokenScope)
	}
	if workspace != 0 {
		var ignored struct{}
		err := f.get(ctx, endpoint, "/credentials", access, workspaceQuery(workspace), &ignored)
		if errors.Is(err, fault.Unauthenticated) {
			return nil, fault.Denied.New("No such workspace, or you are not a participant in it", err)
		}
		if err != nil {
			return nil, err
		}
	}
	return &platformv1.Identity{
		Endpoint: endpoint, UserId: result.User.ID, UserName: result.User.UserName, Email: result.User.Email, WorkspaceId: workspace,
	}, nil
}

// withUserToken calls request with the user's most recently used tokens, one after the other,
// until a token is accepted. It returns fault.Denied if no token is accepted.
func (f *Service) withUserToken(ctx context.Context, id *platformv1.Identity, request func(access string) error) error {
	tokens, err := f.store.delegatedOf(ctx, id.GetEndpoint(), id.GetUserId())
	if err != nil {
		return fmt.Errorf("reading the tokens of a user of %s: %w", id.GetEndpoint(), err)
	}
	denied := error(fault.Denied.Newf("There is no valid access token of this user for the platform %s; request the image again", id.GetEndpoint()))
	for _, g := range tokens {
		if err := f.open(&g); err != nil {
			return err
		}
		switch err := f.withToken(ctx, &g, request); {
		case errors.Is(err, fault.Unauthenticated):
			denied = fault.Denied.New("The platform "+id.GetEndpoint()+" denies this user access, or access to the workspace", err)
		case err != nil:
			return err
		default:
			return f.save(ctx, g)
		}
	}
	return denied
}

// RunStatus returns the status of a run at the user's platform; "" if the platform denies
// access to the run.
func (f *Service) RunStatus(ctx context.Context, id *platformv1.Identity, workflow string) (string, error) {
	var result struct {
		Workflow struct {
			Status string `json:"status"`
		} `json:"workflow"`
	}
	err := f.withUserToken(ctx, id, func(access string) error {
		return f.get(ctx, id.GetEndpoint(), "/workflow/"+workflow, access, workspaceQuery(id.GetWorkspaceId()), &result)
	})
	if errors.Is(err, fault.Denied) {
		return "", nil
	}
	return result.Workflow.Status, err
}
