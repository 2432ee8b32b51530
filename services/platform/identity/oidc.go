package identity

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/platform/api"
)

// signInTTL is how long a person has to sign in at the provider.
const signInTTL = 10 * time.Minute

// OIDC is a provider that is trusted about who somebody is. The zero value is
// none.
type OIDC struct {
	// Issuer is its address, as in its discovery document.
	Issuer string
	// ClientID and ClientSecret are what it calls this platform; a public client has
	// no secret.
	ClientID, ClientSecret string
}

// provider is the OIDC provider, which is asked when the first person signs in:
// a platform starts without it.
type provider struct {
	OIDC
	callback string
	client   *http.Client

	mu    sync.Mutex
	found *oidc.Provider
}

func newProvider(d Deps) *provider {
	return &provider{OIDC: d.OIDC, callback: d.Endpoint + "/oauth/callback", client: &http.Client{
		Timeout: 15 * time.Second, Transport: measured{http.DefaultTransport},
	}}
}

// measured ends every answer of the provider where it becomes too long: the
// libraries that read them know no end, and its keys are fetched on the way of
// anybody's sign-in.
type measured struct{ http.RoundTripper }

func (m measured) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := m.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = http.MaxBytesReader(nil, resp.Body, limits.ProviderAnswer)
	}
	return resp, err
}

// discover returns the provider and how to talk to it.
func (p *provider) discover(ctx context.Context) (*oidc.Provider, *oauth2.Config, error) {
	if p.Issuer == "" {
		return nil, nil, fault.Unsupported.Newf("Signing in through a provider is switched off (setting oidc_issuer)")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.found == nil {
		found, err := oidc.NewProvider(p.context(ctx), p.Issuer)
		if err != nil {
			return nil, nil, p.away(err)
		}
		p.found = found
	}
	return p.found, &oauth2.Config{
		ClientID: p.ClientID, ClientSecret: p.ClientSecret, Endpoint: p.found.Endpoint(), RedirectURL: p.callback,
		Scopes: []string{oidc.ScopeOpenID, "email"},
	}, nil
}

func (p *provider) context(ctx context.Context) context.Context {
	return oidc.ClientContext(ctx, p.client)
}

func (p *provider) away(cause error) error {
	return fault.Unavailable.New("The sign-in at "+p.Issuer+" does not answer; try again", cause).After(5 * time.Second)
}

// BeginSignIn sends a person to the provider, on behalf of a program on their
// machine, or of one elsewhere whose code they are about to enter.
func (s *Service) BeginSignIn(ctx context.Context, req *platformv1.BeginSignInRequest) (*platformv1.BeginSignInResponse, error) {
	for name, v := range map[string]string{"state": req.GetState(), "redirect_uri": req.GetProgram().GetRedirectUri()} {
		if err := api.Within(name, v, 1000); err != nil {
			return nil, err
		}
	}
	if req.GetProgram() != nil {
		if err := s.checkProgram(req.GetProgram()); err != nil {
			return nil, err
		}
	}
	if err := s.chargeSignIn(ctx); err != nil {
		return nil, err
	}
	_, config, err := s.oidc.discover(ctx)
	if err != nil {
		return nil, err
	}
	state, now := rand.Text(), s.deps.Now()
	in := pendingSignIn{
		program: req.GetProgram(), programState: req.GetState(), nonce: rand.Text(), verifier: oauth2.GenerateVerifier(), expires: now.Add(signInTTL),
	}
	if err := s.store.putSignIn(ctx, hashText(state), in); err != nil {
		return nil, fmt.Errorf("writing a sign-in: %w", err)
	}
	to := config.AuthCodeURL(state, oidc.Nonce(in.nonce), oauth2.S256ChallengeOption(in.verifier))
	return &platformv1.BeginSignInResponse{Url: to, State: state}, nil
}

// FinishSignIn takes what the provider says, and returns where the person's
// browser brings a code to the program. Without a program the person, who is asked for
// the code of a device then, gets a consent.
func (s *Service) FinishSignIn(ctx context.Context, req *platformv1.FinishSignInRequest) (*platformv1.FinishSignInResponse, error) {
	in, err := s.store.takeSignIn(ctx, hashText(req.GetState()))
	if err != nil && !errors.Is(err, fault.NotFound) {
		return nil, fmt.Errorf("reading a sign-in: %w", err)
	}
	if err != nil || !s.deps.Now().Before(in.expires) {
		return nil, fault.Invalid.New("This sign-in is over: begin again", err)
	}
	token, err := s.identify(ctx, req.GetCode(), in)
	if err != nil {
		return nil, err
	}
	u, err := s.userBehind(ctx, token)
	if err != nil {
		return nil, err
	}
	if !u.Disabled.IsZero() {
		return nil, fault.Denied.Newf("Your account here is disabled; an operator can enable it again (slipwayd user enable)")
	}
	if in.program.GetRedirectUri() == "" {
		text, err := s.consentOf(ctx, u)
		return &platformv1.FinishSignInResponse{Consent: text, UserName: u.Name}, err
	}
	code, err := s.codeFor(ctx, tokenRecord{user: u}, in.program)
	if err != nil {
		return nil, err
	}
	to, err := url.Parse(in.program.GetRedirectUri()) // it was looked at
	if err != nil {
		return nil, err
	}
	q := to.Query()
	q.Set("code", code)
	if in.programState != "" {
		q.Set("state", in.programState)
	}
	to.RawQuery = q.Encode()
	return &platformv1.FinishSignInResponse{RedirectUri: to.String()}, nil
}

// identify trades the provider's code for what it says of the person.
func (s *Service) identify(ctx context.Context, code string, in pendingSignIn) (*oidc.IDToken, error) {
	found, config, err := s.oidc.discover(ctx)
	if err != nil {
		return nil, err
	}
	ctx = s.oidc.context(ctx)
	answer, err := config.Exchange(ctx, code, oauth2.VerifierOption(in.verifier))
	var refused *oauth2.RetrieveError
	if errors.As(err, &refused) && refused.Response.StatusCode < http.StatusInternalServerError {
		return nil, unproven(errors.New("the provider refuses the code: " + refused.ErrorCode))
	}
	if err != nil {
		return nil, s.oidc.away(errors.New("trading the code")) // the error may hold what it sent
	}
	raw, _ := answer.Extra("id_token").(string)
	token, err := found.VerifierContext(ctx, &oidc.Config{ClientID: s.oidc.ClientID, Now: s.deps.Now}).Verify(ctx, raw)
	if err == nil && token.Nonce != in.nonce {
		err = errors.New("the nonce is another's")
	}
	if err != nil {
		return nil, unproven(err)
	}
	return token, nil
}

func unproven(cause error) error {
	return fault.Denied.New("The sign-in provider does not prove who you are; begin again", cause)
}

// userBehind finds the user: who signed in before, or who has the address that the
// provider has verified. Nobody is made by signing in.
func (s *Service) userBehind(ctx context.Context, token *oidc.IDToken) (User, error) {
	u, err := s.store.userLoggedIn(ctx, token.Issuer, token.Subject)
	if err == nil || !errors.Is(err, fault.NotFound) {
		return u, err
	}
	var claims struct {
		Email    string `json:"email"`
		Verified bool   `json:"email_verified"`
	}
	if err := token.Claims(&claims); err != nil {
		return User{}, unproven(err)
	}
	if claims.Email == "" || !claims.Verified {
		return User{}, fault.Denied.Newf("The sign-in provider has not verified an e-mail address of yours")
	}
	u, err = s.store.userWithEmail(ctx, claims.Email)
	if errors.Is(err, fault.NotFound) {
		return User{}, fault.Denied.New("There is no user with your e-mail address here; an operator makes one (slipwayd user create)", err)
	}
	if err != nil {
		return User{}, fmt.Errorf("reading a user: %w", err)
	}
	if err := s.store.linkLogin(ctx, token.Issuer, token.Subject, u.ID, s.deps.Now()); err != nil {
		return User{}, fmt.Errorf("writing a login of user %d: %w", u.ID, err)
	}
	return u, nil
}

func hashText(s string) []byte {
	h := sha256.Sum256([]byte(s))
	return h[:]
}
