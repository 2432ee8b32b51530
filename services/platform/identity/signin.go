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
	"slipway.dev/services/platform/audit"
)

const (
	codeTTL    = time.Minute
	accessTTL  = time.Hour
	refreshTTL = 30 * 24 * time.Hour // since the last refresh
)

// CreateCode returns an authorization code for a program on the user's machine. Redeeming the
// code also requires the program's code verifier (PKCE).
func (s *Service) CreateCode(ctx context.Context, req *platformv1.CreateCodeRequest) (*platformv1.CreateCodeResponse, error) {
	program := &platformv1.Program{
		ClientId: req.GetClientId(), RedirectUri: req.GetRedirectUri(), CodeChallenge: req.GetCodeChallenge(), CodeChallengeMethod: req.GetCodeChallengeMethod(),
	}
	if err := s.checkProgram(program); err != nil {
		return nil, err
	}
	if isJWT(req.GetAccessToken()) { // a new session must not outlive the session of the JWT
		return nil, errSessionToken()
	}
	rec, err := s.authenticateFull(ctx, req.GetAccessToken())
	if err != nil {
		s.deps.Audit.Refuse(ctx, audit.Event{Action: "sign-in", Subject: req.GetClientId()}, err)
		return nil, err
	}
	if err := s.charge(ctx, rec.caller()); err != nil {
		return nil, err
	}
	text, err := s.createCode(ctx, rec, program)
	return &platformv1.CreateCodeResponse{Code: text}, err
}

// errSessionToken is returned when a program's JWT is used to sign in another program.
func errSessionToken() error {
	return fault.Unauthenticated.Newf("Sign in with a personal access token, which `slipway tokens create` creates")
}

// checkProgram returns an error if a program may not get a code.
func (s *Service) checkProgram(p *platformv1.Program) error {
	if err := s.deps.Keys.Check(); err != nil {
		return err
	}
	if err := s.checkRedirect(p.GetRedirectUri()); err != nil {
		return err
	}
	if p.GetClientId() == "" {
		return fault.Invalid.Newf("client_id must be set to the name of the program")
	}
	if len(p.GetCodeChallenge()) != 43 || p.GetCodeChallengeMethod() != "S256" {
		return fault.Invalid.Newf("code_challenge must be set, with code_challenge_method=S256")
	}
	return errors.Join(api.CheckLength("client_id", p.GetClientId(), 100), api.CheckLength("redirect_uri", p.GetRedirectUri(), 1000))
}

// createCode returns a new authorization code for a program, on behalf of the owner of a token.
func (s *Service) createCode(ctx context.Context, by tokenRecord, p *platformv1.Program) (string, error) {
	now, text := s.deps.Now(), api.NewTextID(40)
	method := "token"
	if by.id == 0 {
		method = "provider"
	}
	err := s.store.putSignInCode(ctx, code{
		kind: programCode, hash: hashText(text), userID: by.user.ID, token: by.id, clientID: p.GetClientId(), redirectURI: p.GetRedirectUri(),
		challenge: p.GetCodeChallenge(), expires: now.Add(codeTTL),
	}, method, now)
	if err != nil {
		return "", fmt.Errorf("writing a code: %w", err)
	}
	return text, nil
}

// checkRedirect accepts loopback addresses, so that a code never leaves the user's machine, and
// the sign-in page of this service.
func (s *Service) checkRedirect(to string) error {
	if s.isOwnPage(to) {
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

// isOwnPage reports whether an address is the sign-in page of this service.
func (s *Service) isOwnPage(to string) bool { return s.deps.Pages != "" && to == s.deps.Pages+"/login" }

// IssueTokens returns an access token and a refresh token for a grant.
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
		if req.GetGrantType() != DeviceGrant { // devices poll until their code is entered
			s.deps.Audit.Refuse(ctx, audit.Event{Action: "session.create", Subject: req.GetClientId()}, err)
		}
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

// redeem begins a session with an authorization code.
func (s *Service) redeem(ctx context.Context, req *platformv1.IssueTokensRequest) (session, token, error) {
	sum := sha256.Sum256([]byte(req.GetCodeVerifier()))
	challenge := base64.RawURLEncoding.EncodeToString(sum[:])
	v, t, err := s.beginSession(ctx, programCode, req.GetCode(), req.GetClientId(), func(c code) bool {
		return !s.deps.Now().After(c.expires) && c.redirectURI == req.GetRedirectUri() &&
			subtle.ConstantTimeCompare([]byte(challenge), []byte(c.challenge)) == 1
	})
	if errors.Is(err, fault.NotFound) {
		err = fault.Invalid.New("The code is not valid: a code works once, within a minute, with its own verifier, client_id and redirect_uri", err)
	}
	return v, t, err
}

// beginSession begins a session with a code of a kind. It returns fault.NotFound if the code
// does not exist, or accepts returns false for it.
func (s *Service) beginSession(ctx context.Context, kind codeKind, text, clientID string, accepts func(code) bool) (session, token, error) {
	now, t := s.deps.Now(), newToken(api.NewID())
	v, err := s.store.beginSession(ctx, session{
		id: t.id, clientID: clientID, codeHash: hashText(text), refresh: t.hash(), created: now, expires: now.Add(refreshTTL),
	}, kind, accepts)
	if err != nil {
		return session{}, token{}, fmt.Errorf("beginning a session: %w", err)
	}
	return v, t, nil
}

// refresh replaces a session's refresh token. If an old refresh token is used again, either that
// use or an earlier one was by a thief, so the session ends.
func (s *Service) refresh(ctx context.Context, text string) (session, token, error) {
	t, err := parseToken(text)
	if err != nil {
		return session{}, token{}, errInvalidRefreshToken(err)
	}
	now := s.deps.Now()
	v, err := s.store.session(ctx, t.id, now)
	if errors.Is(err, fault.NotFound) {
		return session{}, token{}, errInvalidRefreshToken(err)
	}
	if err != nil {
		return session{}, token{}, fmt.Errorf("reading session %d: %w", t.id, err)
	}
	next := newToken(v.id)
	replaced := t.matches(v.refresh)
	if replaced {
		v.used, v.expires = now, v.refreshedExpiry(now)
		if replaced, err = s.store.replaceRefreshToken(ctx, v, next.hash()); err != nil {
			return session{}, token{}, fmt.Errorf("writing session %d: %w", v.id, err)
		}
	}
	if !replaced {
		return session{}, token{}, errInvalidRefreshToken(errors.Join(errors.New("used again: the session ends"), s.store.endSession(ctx, v.id)))
	}
	return v, next, nil
}

// refreshedExpiry returns the time at which a session that is refreshed now expires. Its total
// lifetime is bounded, however often it is refreshed.
func (v session) refreshedExpiry(now time.Time) time.Time {
	until, end := now.Add(refreshTTL), v.created.Add(limits.SessionLife)
	if end.Before(until) {
		return end
	}
	return until
}

func errInvalidRefreshToken(cause error) error {
	return fault.Unauthenticated.New("The refresh token is not valid; sign in again", cause)
}
