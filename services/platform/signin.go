package platform

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
	rec, err := s.authenticate(ctx, req.GetAccessToken())
	if err != nil {
		return nil, err
	}
	text, err := s.codeFor(ctx, rec.user, program)
	return &platformv1.CreateCodeResponse{Code: text}, err
}

// checkProgram says whether a program may be let in at all.
func (s *Service) checkProgram(p *platformv1.Program) error {
	if _, err := s.keys(); err != nil {
		return err
	}
	if err := checkRedirect(p.GetRedirectUri()); err != nil {
		return err
	}
	if len(p.GetCodeChallenge()) != 43 || p.GetCodeChallengeMethod() != "S256" {
		return fault.Invalid.Newf("code_challenge must be given, with code_challenge_method=S256")
	}
	return within("client_id", p.GetClientId(), 100)
}

// codeFor makes a code for a program, in somebody's name.
func (s *Service) codeFor(ctx context.Context, u user, p *platformv1.Program) (string, error) {
	now, text := s.deps.Now(), newTextID(40)
	err := s.store.putCode(ctx, code{
		hash: hashText(text), userID: u.ID, clientID: p.GetClientId(), redirectURI: p.GetRedirectUri(),
		challenge: p.GetCodeChallenge(), expires: now.Add(codeTTL),
	}, now)
	if err != nil {
		return "", fmt.Errorf("writing a code: %w", err)
	}
	return text, nil
}

// checkRedirect takes loopback addresses only: a code never leaves the machine.
func checkRedirect(s string) error {
	u, err := url.Parse(s)
	if err == nil && u.Scheme == "http" && u.User == nil && u.Fragment == "" {
		ip, err := netip.ParseAddr(u.Hostname())
		if u.Hostname() == "localhost" || err == nil && ip.IsLoopback() {
			return nil
		}
	}
	return fault.Invalid.New("redirect_uri must be http on a loopback address, e.g. http://127.0.0.1:8080/", err)
}

// IssueTokens answers a pair of tokens.
func (s *Service) IssueTokens(ctx context.Context, req *platformv1.IssueTokensRequest) (*platformv1.IssueTokensResponse, error) {
	keys, err := s.keys()
	if err != nil {
		return nil, err
	}
	var v session
	var next token
	switch req.GetGrantType() {
	case "authorization_code":
		v, next, err = s.redeem(ctx, req)
	case "refresh_token":
		v, next, err = s.refresh(ctx, req.GetRefreshToken())
	default:
		err = fault.Invalid.Newf("grant_type must be authorization_code or refresh_token")
	}
	if err != nil {
		return nil, err
	}
	now := s.deps.Now()
	jwt, err := keys.sign(claims{
		Issuer: s.deps.Endpoint, Subject: v.user.ID, Session: v.id, Issued: now.Unix(), Expires: now.Add(accessTTL).Unix(),
	})
	if err != nil {
		return nil, err
	}
	return &platformv1.IssueTokensResponse{AccessToken: jwt, RefreshToken: next.String(), ExpiresIn: int32(accessTTL / time.Second)}, nil
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
	t := newToken(newID())
	v := session{id: t.id, user: user{ID: c.userID}, clientID: c.clientID, refresh: t.hash(), expires: now.Add(refreshTTL)}
	if err := s.store.insertSession(ctx, v, now); err != nil {
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
	v, err := s.store.session(ctx, t.id)
	if errors.Is(err, fault.NotFound) {
		return session{}, token{}, staleRefresh(err)
	}
	if err != nil {
		return session{}, token{}, fmt.Errorf("reading session %d: %w", t.id, err)
	}
	now := s.deps.Now()
	if now.After(v.expires) {
		return session{}, token{}, staleRefresh(errors.New("the session has expired"))
	}
	next := newToken(v.id)
	turned := t.matches(v.refresh)
	if turned {
		if turned, err = s.store.turnSession(ctx, v.id, v.refresh, next.hash(), now.Add(refreshTTL)); err != nil {
			return session{}, token{}, fmt.Errorf("writing session %d: %w", v.id, err)
		}
	}
	if !turned {
		return session{}, token{}, staleRefresh(errors.Join(errors.New("used again: the session ends"), s.store.deleteSession(ctx, v.id)))
	}
	return v, next, nil
}

func staleRefresh(cause error) error {
	return fault.Unauthenticated.New("The refresh token is not valid; sign in again", cause)
}
