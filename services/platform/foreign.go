package platform

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/upstream"
	"slipway.dev/services/platform/audit"
	"slipway.dev/services/platform/runs"
	"slipway.dev/services/platform/vault"
)

// How long it is remembered what other platforms say, in memory only.
const (
	identityTTL = 5 * time.Minute
	loginTTL    = time.Minute
)

// Foreign is other platforms, which are believed about their users
// (gateway/contract/platform.md#foreign-platforms). The zero value is none.
type Foreign struct {
	// Endpoints are their base URLs, without a slash at the end.
	Endpoints []string
	// Operators are accounts that may pair with them, by host or host/path.
	Operators map[string]upstream.Login
	// Transport reaches them, within the egress rules.
	Transport http.RoundTripper
}

// foreigners asks other platforms. Its truth is the tables platform_grants, whose
// tokens this platform uses, and platform_peers, its keys at other platforms; both
// are sealed.
type foreigners struct {
	Foreign
	store      store
	trail      audit.Trail
	keys       *vault.Keys
	now        func() time.Time
	client     *http.Client
	identities *memory[*platformv1.Identity]
	logins     *memory[upstream.Access]
	lists      *memory[[]foreignRecord]
}

func newForeigners(d Deps) *foreigners {
	return &foreigners{
		Foreign: d.Foreign, store: store{d.DB}, trail: audit.Trail{DB: d.DB, Now: d.Now}, keys: d.Keys, now: d.Now,
		client: &http.Client{
			Transport:     d.Foreign.Transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		identities: newMemory[*platformv1.Identity](identityTTL, d.Now), logins: newMemory[upstream.Access](loginTTL, d.Now), lists: newMemory[[]foreignRecord](loginTTL, d.Now),
	}
}

// keyOf names something secret without keeping it.
func keyOf(parts ...any) string {
	h := sha256.New()
	for _, p := range parts {
		_, _ = fmt.Fprintf(h, "%v\x00", p) // a hash takes everything
	}
	return hex.EncodeToString(h.Sum(nil))
}

// believe checks that an endpoint is one that is believed.
func (f *foreigners) believe(endpoint, own string) error {
	if !slices.Contains(f.Endpoints, endpoint) {
		return fault.Invalid.Newf("platformEndpoint %q is not a platform that this service believes; its own is %s", endpoint, own)
	}
	if f.keys == nil {
		return fault.Unsupported.Newf("Other platforms are switched off: this one has no master_key_file")
	}
	return nil
}

// authorize says whose token it is, and keeps it for what is done in that user's
// name later on.
func (f *foreigners) authorize(ctx context.Context, req *platformv1.AuthorizeRequest, endpoint string) (*platformv1.Identity, error) {
	key := keyOf(endpoint, req.GetAccessToken(), req.GetWorkspaceId())
	found, err := f.identities.get(ctx, key, func(ctx context.Context) (*platformv1.Identity, error) {
		g := newGrant(endpoint, req.GetAccessToken(), req.GetRefreshToken())
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
func (f *foreigners) identify(ctx context.Context, endpoint, access string, workspace int64) (*platformv1.Identity, error) {
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
			return nil, fault.Denied.New("There is no such workspace, or you are no participant of it", err)
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
func (f *foreigners) forUser(ctx context.Context, id *platformv1.Identity, ask func(access string) error) error {
	grants, err := f.store.grantsOf(ctx, id.GetEndpoint(), id.GetUserId())
	if err != nil {
		return fmt.Errorf("reading the tokens of a user of %s: %w", id.GetEndpoint(), err)
	}
	refusal := error(fault.Denied.Newf("The platform %s lets this user in no more; ask for the image again", id.GetEndpoint()))
	for _, g := range grants {
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

// isLive says whether a run goes on.
func (f *foreigners) isLive(ctx context.Context, id *platformv1.Identity, workflow string) (bool, error) {
	var answer struct {
		Workflow struct {
			Status string `json:"status"`
		} `json:"workflow"`
	}
	err := f.forUser(ctx, id, func(access string) error {
		return f.get(ctx, id.GetEndpoint(), "/workflow/"+workflow, access, inWorkspace(id.GetWorkspaceId()), &answer)
	})
	if errors.Is(err, fault.Denied) {
		return false, nil
	}
	return runs.IsLive(answer.Workflow.Status), err
}

// isOwn says whether an endpoint is this platform: one of its addresses, or none.
func (s *Service) isOwn(endpoint string) bool {
	endpoint = strings.TrimRight(endpoint, "/")
	return endpoint == "" || endpoint == s.deps.Endpoint || slices.Contains(s.deps.Aliases, endpoint)
}
