package identity

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"time"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/platform/api"
)

const (
	codeTTL    = time.Minute
	accessTTL  = time.Hour
	refreshTTL = 30 * 24 * time.Hour // since the last refresh
)

// CreateCode lets a program on the person's own machine in. Whoever has the code
// also needs the verifier that the program keeps (PKCE).
func (s *Service) CreateCode(ctx context.Context, req *platformv1.CreateCodeRequest) (*platformv1.CreateCodeResponse, error) {
	program := &platformv1.Program{
		ClientId: req.GetClientId(), RedirectUri: req.GetRedirectUri(), CodeChallenge: req.GetCodeChallenge(), CodeChallengeMethod: req.GetCodeChallengeMethod(),
	}
	if err := s.checkProgram(program); err != nil {
		return nil, err
	}
	if isJWT(req.GetAccessToken()) { // nothing that a session begets may outlive it
		return nil, notOwn()
	}
	rec, err := s.authenticate(ctx, req.GetAccessToken())
	if err != nil {
		return nil, err
	}
	if err := s.charge(ctx, rec.id); err != nil {
		return nil, err
	}
	text, err := s.codeFor(ctx, rec, program)
	return &platformv1.CreateCodeResponse{Code: text}, err
}

func notOwn() error {
	return fault.Unauthenticated.Newf("Sign in with an access token of your own, as `slipway tokens create` makes it")
}

// checkProgram says whether a program may be let in at all.
func (s *Service) checkProgram(p *platformv1.Program) error {
	if err := s.deps.Keys.Check(); err != nil {
		return err
	}
	if err := s.checkRedirect(p.GetRedirectUri()); err != nil {
		return err
	}
	if len(p.GetCodeChallenge()) != 43 || p.GetCodeChallengeMethod() != "S256" {
		return fault.Invalid.Newf("code_challenge must be given, with code_challenge_method=S256")
	}
	return errors.Join(api.Within("client_id", p.GetClientId(), 100), api.Within("redirect_uri", p.GetRedirectUri(), 1000))
}

// codeFor makes a code for a program, in the name of whoever signed in.
func (s *Service) codeFor(ctx context.Context, by tokenRecord, p *platformv1.Program) (string, error) {
	now, text := s.deps.Now(), api.NewTextID(40)
	err := s.store.putCode(ctx, code{
		hash: hashText(text), userID: by.user.ID, token: by.id, clientID: p.GetClientId(), redirectURI: p.GetRedirectUri(),
		challenge: p.GetCodeChallenge(), expires: now.Add(codeTTL),
	}, now)
	if err != nil {
		return "", fmt.Errorf("writing a code: %w", err)
	}
	return text, nil
}

// checkRedirect takes loopback addresses only, so that a code never leaves the machine,
// and the page of this service itself, on which people sign in.
func (s *Service) checkRedirect(to string) error {
	if s.deps.Pages != "" && to == s.deps.Pages+"/login" {
		return nil
	}
	u, err := url.Parse(to)
	if err == nil && u.Scheme == "http" && u.User == nil && u.Fragment == "" {
		ip, err := netip.ParseAddr(u.Hostname())
		if u.Hostname() == "localhost" || err == nil && ip.IsLoopback() {
			return nil
		}
	}
	return fault.Invalid.New("redirect_uri must be http on a loopback address, e.g. http://127.0.0.1:8080/", err)
}

// IssueTokens returns a pair of tokens.
func (s *Service) IssueTokens(ctx context.Context, req *platformv1.IssueTokensRequest) (*platformv1.IssueTokensResponse, error) {
	if err := s.chargeClient(ctx); err != nil {
		return nil, err
	}
	if err := s.deps.Keys.Check(); err != nil {
		return nil, err
	}
	var v session
	var next token
	var err error
	switch req.GetGrantType() {
	case "authorization_code":
		v, next, err = s.redeem(ctx, req)
	case "refresh_token":
		v, next, err = s.refresh(ctx, req.GetRefreshToken())
	case DeviceGrant:
		v, next, err = s.redeemDevice(ctx, req)
	default:
		err = fault.Invalid.Newf("grant_type must be authorization_code, refresh_token or %s", DeviceGrant)
	}
	if err != nil {
		return nil, err
	}
	now := s.deps.Now()
	ttl := min(accessTTL, v.expires.Sub(now))
	jwt, err := sign(s.deps.Keys, claims{
		Issuer: s.deps.Endpoint, Subject: v.user.ID, Session: v.id, Issued: now.Unix(), Expires: now.Add(ttl).Unix(),
	})
	if err != nil {
		return nil, err
	}
	return &platformv1.IssueTokensResponse{AccessToken: jwt, RefreshToken: next.String(), ExpiresIn: int32(ttl / time.Second)}, nil
}

// redeem begins a session for a code.
func (s *Service) redeem(ctx context.Context, req *platformv1.IssueTokensRequest) (session, token, error) {
	c, err := s.store.takeCode(ctx, hashText(req.GetCode()))
	if err != nil && !errors.Is(err, fault.NotFound) {
		return session{}, token{}, fmt.Errorf("reading a code: %w", err)
	}
	sum := sha256.Sum256([]byte(req.GetCodeVerifier()))
	challenge := base64.RawURLEncoding.EncodeToString(sum[:])
	now := s.deps.Now()
	if err != nil || now.After(c.expires) || c.clientID != req.GetClientId() || c.redirectURI != req.GetRedirectUri() ||
		subtle.ConstantTimeCompare([]byte(challenge), []byte(c.challenge)) != 1 {
		return session{}, token{}, fault.Invalid.New("The code is not valid: it works once, within a minute, with its own verifier, client_id and redirect_uri", err)
	}
	return s.begin(ctx, c)
}

// begin begins the session that a code stands for.
func (s *Service) begin(ctx context.Context, c code) (session, token, error) {
	now, t := s.deps.Now(), newToken(api.NewID())
	v := session{id: t.id, user: User{ID: c.userID}, token: c.token, clientID: c.clientID, refresh: t.hash(), created: now, expires: now.Add(refreshTTL)}
	if err := s.store.insertSession(ctx, v); err != nil {
		return session{}, token{}, fmt.Errorf("writing a session: %w", err)
	}
	return v, t, nil
}

// refresh turns a session's refresh token over. An old one that comes again was
// stolen, before or now: that ends the session.
func (s *Service) refresh(ctx context.Context, text string) (session, token, error) {
	t, err := parseToken(text)
	if err != nil {
		return session{}, token{}, staleRefresh(err)
	}
	now := s.deps.Now()
	v, err := s.store.session(ctx, t.id, now)
	if errors.Is(err, fault.NotFound) {
		return session{}, token{}, staleRefresh(err)
	}
	if err != nil {
		return session{}, token{}, fmt.Errorf("reading session %d: %w", t.id, err)
	}
	next := newToken(v.id)
	turned := t.matches(v.refresh)
	if turned {
		v.used, v.expires = now, v.lastsUntil(now)
		if turned, err = s.store.turnSession(ctx, v, next.hash()); err != nil {
			return session{}, token{}, fmt.Errorf("writing session %d: %w", v.id, err)
		}
	}
	if !turned {
		return session{}, token{}, staleRefresh(errors.Join(errors.New("used again: the session ends"), s.store.deleteSession(ctx, v.id)))
	}
	return v, next, nil
}

// lastsUntil is when a session ends that is refreshed now: its whole life is
// bounded, however often it is.
func (v session) lastsUntil(now time.Time) time.Time {
	until, end := now.Add(refreshTTL), v.created.Add(limits.SessionLife)
	if end.Before(until) {
		return end
	}
	return until
}

func staleRefresh(cause error) error {
	return fault.Unauthenticated.New("The refresh token is not valid; sign in again", cause)
}
