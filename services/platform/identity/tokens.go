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

// ListTokens lists the caller's tokens, and the sessions of programs that they let
// in.
func (s *Service) ListTokens(ctx context.Context, req *platformv1.ListTokensRequest) (*platformv1.ListTokensResponse, error) {
	u := CallerFrom(ctx).User
	list, err := s.store.tokens(ctx, u.ID)
	if err != nil {
		return nil, fmt.Errorf("reading the tokens of user %d: %w", u.ID, err)
	}
	open, err := s.store.sessions(ctx, u.ID, s.deps.Now())
	if err != nil {
		return nil, fmt.Errorf("reading the sessions of user %d: %w", u.ID, err)
	}
	if list, err = paging.Cut(list, req); err != nil {
		return nil, err
	}
	if open, err = paging.Cut(open, req); err != nil {
		return nil, err
	}
	resp := &platformv1.ListTokensResponse{}
	for _, t := range list {
		resp.Tokens = append(resp.Tokens, t.record())
	}
	for _, v := range open {
		resp.Sessions = append(resp.Sessions, &platformv1.SessionRecord{
			Id: float64(v.id), ClientId: v.clientID, TokenId: api.Number(v.token),
			LastUsed: api.Instant(v.used), DateCreated: api.Instant(v.created), Expires: api.Instant(v.expires),
		})
	}
	return resp, nil
}

func (r tokenRecord) record() *platformv1.TokenRecord {
	return &platformv1.TokenRecord{
		Id: float64(r.id), Name: r.name, LastUsed: api.Instant(r.used), DateCreated: api.Instant(r.created), Expires: api.Instant(r.expires),
	}
}

// CreateToken makes a token for the caller.
func (s *Service) CreateToken(ctx context.Context, req *platformv1.CreateTokenRequest) (*platformv1.CreateTokenResponse, error) {
	u := CallerFrom(ctx).User
	var expires time.Time
	if text := req.GetToken().GetExpires(); text != "" {
		var err error
		if expires, err = time.Parse(time.RFC3339, text); err != nil || !expires.After(s.deps.Now()) {
			return nil, fault.Invalid.New("expires must be a time to come, e.g. 2027-01-31T12:00:00Z", err)
		}
	}
	t, rec, err := s.makeToken(ctx, u, req.GetToken().GetName(), expires)
	if err != nil {
		return nil, err
	}
	return &platformv1.CreateTokenResponse{AccessKey: t.String(), Token: rec.record()}, nil
}

// makeToken writes a new token; fault.Conflict when its user has one of the name.
func (s *Service) makeToken(ctx context.Context, u User, name string, expires time.Time) (token, tokenRecord, error) {
	name = strings.TrimSpace(name)
	if name == "" {
		return token{}, tokenRecord{}, fault.Invalid.Newf("name must not be empty")
	}
	if err := api.Within("name", name, 50); err != nil {
		return token{}, tokenRecord{}, err
	}
	t := newToken(api.NewID())
	rec := tokenRecord{id: t.id, name: name, user: u, created: s.deps.Now(), expires: expires}
	made, err := s.store.insertToken(ctx, t, rec)
	if err != nil {
		return token{}, tokenRecord{}, fmt.Errorf("writing a token of user %d: %w", u.ID, err)
	}
	if !made {
		return token{}, tokenRecord{}, fault.Conflict.Newf("There is a token named %q already", name)
	}
	return t, rec, nil
}

// DeleteToken revokes one of the caller's tokens with all sessions that began with
// it, or ends a session. Every call reads the tables, so it holds at once on each
// replica. Other tokens that were made with it are in the list, and stay.
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
	if err := s.store.deleteTokens(ctx, u.ID); err != nil {
		return nil, fmt.Errorf("deleting the tokens of user %d: %w", u.ID, err)
	}
	return &platformv1.DeleteAllTokensResponse{}, nil
}
