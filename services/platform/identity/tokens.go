package identity

import (
	"context"
	"fmt"
	"strings"
	"time"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/paging"
	"slipway.dev/services/platform/api"
)

// ListTokens returns a page of the caller's tokens and a page of the caller's sessions.
func (s *Service) ListTokens(ctx context.Context, req *platformv1.ListTokensRequest) (*platformv1.ListTokensResponse, error) {
	u := CallerFrom(ctx).User
	list, err := s.store.tokens(ctx, u.ID)
	if err != nil {
		return nil, fmt.Errorf("reading the tokens of user %d: %w", u.ID, err)
	}
	sessions, err := s.store.sessions(ctx, u.ID, s.deps.Now())
	if err != nil {
		return nil, fmt.Errorf("reading the sessions of user %d: %w", u.ID, err)
	}
	if list, err = paging.Slice(list, req); err != nil {
		return nil, err
	}
	if sessions, err = paging.Slice(sessions, req); err != nil {
		return nil, err
	}
	resp := &platformv1.ListTokensResponse{}
	for _, t := range list {
		resp.Tokens = append(resp.Tokens, t.record())
	}
	for _, v := range sessions {
		resp.Sessions = append(resp.Sessions, &platformv1.SessionRecord{
			Id: float64(v.id), ClientId: v.clientID, TokenId: api.IDValue(v.token),
			LastUsed: api.Timestamp(v.used), DateCreated: api.Timestamp(v.created), Expires: api.Timestamp(v.expires),
		})
	}
	return resp, nil
}

func (r tokenRecord) record() *platformv1.TokenRecord {
	return &platformv1.TokenRecord{
		Id: float64(r.id), Name: r.name, LastUsed: api.Timestamp(r.used), DateCreated: api.Timestamp(r.created), Expires: api.Timestamp(r.expires),
		Scopes: names(r.restriction.Scopes), WorkspaceId: api.IDValue(r.restriction.Workspace), LastAddress: api.StringValue(r.usedFrom),
		Repositories: names(r.restriction.Repositories),
	}
}

// CreateToken creates a token for the caller. If the call is made with a restricted token, the
// new token has at most the rights and the lifetime of that token. The workspace is not
// checked: the token does not work there unless the user is a participant.
func (s *Service) CreateToken(ctx context.Context, req *platformv1.CreateTokenRequest) (*platformv1.CreateTokenResponse, error) {
	by := CallerFrom(ctx)
	restriction, err := readRestriction(req.GetToken().GetScopes(), req.GetToken().GetRepositories(), req.GetToken().GetWorkspaceId())
	if err != nil {
		return nil, err
	}
	if err := by.Restriction.checkChild(restriction); err != nil {
		return nil, err
	}
	expires, err := s.readExpiry(req.GetToken().GetExpires(), by)
	if err != nil {
		return nil, err
	}
	t, rec, err := s.createToken(ctx, tokenRecord{user: by.User, name: req.GetToken().GetName(), expires: expires, restriction: restriction})
	if err != nil {
		return nil, err
	}
	return &platformv1.CreateTokenResponse{AccessKey: t.String(), Token: rec.record()}, nil
}

// readExpiry returns the expiry of a new token; zero for never. A token that a restricted token
// creates expires no later than that token.
func (s *Service) readExpiry(text string, by Caller) (expires time.Time, err error) {
	end := time.Time{}
	if !by.Restriction.IsZero() {
		end = by.expires
	}
	switch text {
	case "":
		expires = s.DefaultExpiry()
		if !end.IsZero() && end.Before(expires) {
			expires = end
		}
	case neverExpires:
	default:
		if expires, err = time.Parse(time.RFC3339, text); err != nil || !expires.After(s.deps.Now()) {
			return expires, fault.Invalid.New("expires must be a time in the future, e.g. 2027-01-31T12:00:00Z, or never", err)
		}
	}
	if !end.IsZero() && (expires.IsZero() || expires.After(end)) {
		return expires, errScope("The new token must not expire after the token that creates it, which expires at " + expiryText(end))
	}
	return expires, nil
}

// neverExpires is the value of `expires` for a token that does not expire.
const neverExpires = "never"

// tokenLife is the default lifetime of a token.
const tokenLife = 90 * 24 * time.Hour

// DefaultExpiry returns the time of expiry of a token that is created now without `expires`.
func (s *Service) DefaultExpiry() time.Time {
	life := tokenLife
	if s.deps.MaxTokenLife > 0 {
		life = min(life, s.deps.MaxTokenLife)
	}
	return s.deps.Now().Add(life)
}

// checkExpiry returns fault.Invalid for an expiry after the maximum lifetime.
func (s *Service) checkExpiry(expires time.Time) error {
	longest := s.deps.MaxTokenLife
	// A client computes the time of expiry before the server receives it, and may round it up.
	if longest > 0 && (expires.IsZero() || expires.After(s.deps.Now().Add(longest+time.Minute))) {
		return fault.Invalid.Newf("Access tokens are valid for at most %s on this server; choose an earlier time of expiry", lifeText(longest))
	}
	return nil
}

// lifeText returns a lifetime in days if it is whole days.
func lifeText(d time.Duration) string {
	const day = 24 * time.Hour
	if d%day == 0 {
		return fmt.Sprintf("%d days", d/day)
	}
	return d.String()
}

// createToken stores and returns a new token with the user, name, expiry and restriction of rec. It
// returns fault.Conflict if the user has a token with that name.
func (s *Service) createToken(ctx context.Context, rec tokenRecord) (token, tokenRecord, error) {
	rec.name = strings.TrimSpace(rec.name)
	if rec.name == "" {
		return token{}, tokenRecord{}, fault.Invalid.Newf("name must not be empty")
	}
	if err := api.CheckLength("name", rec.name, 50); err != nil {
		return token{}, tokenRecord{}, err
	}
	if err := s.checkExpiry(rec.expires); err != nil {
		return token{}, tokenRecord{}, err
	}
	t := newToken(api.NewID())
	rec.id, rec.created = t.id, s.deps.Now()
	created, err := s.store.insertToken(ctx, t, rec)
	if err != nil {
		return token{}, tokenRecord{}, fmt.Errorf("writing a token of user %d: %w", rec.user.ID, err)
	}
	if !created {
		return token{}, tokenRecord{}, fault.Conflict.Newf("There is a token named %q already", rec.name).WithCode(fault.ObjectTaken)
	}
	return t, rec, nil
}

// DeleteToken revokes one of the caller's tokens with all sessions that began with it, or ends
// a session. It takes effect immediately on each replica, since every call reads the tables.
// Other tokens that were created with the token stay, and are in the list.
func (s *Service) DeleteToken(ctx context.Context, req *platformv1.DeleteTokenRequest) (*platformv1.DeleteTokenResponse, error) {
	u := CallerFrom(ctx).User
	done, err := s.store.deleteToken(ctx, u.ID, req.GetTokenId())
	if err != nil {
		return nil, fmt.Errorf("deleting token %d: %w", req.GetTokenId(), err)
	}
	if !done {
		return nil, fault.NotFound.Newf("No such token")
	}
	return &platformv1.DeleteTokenResponse{}, nil
}

// DeleteAllTokens revokes all of the caller's tokens.
func (s *Service) DeleteAllTokens(ctx context.Context, _ *platformv1.DeleteAllTokensRequest) (*platformv1.DeleteAllTokensResponse, error) {
	u := CallerFrom(ctx).User
	if err := s.store.deleteTokens(ctx, u); err != nil {
		return nil, fmt.Errorf("deleting the tokens of user %d: %w", u.ID, err)
	}
	return &platformv1.DeleteAllTokensResponse{}, nil
}
