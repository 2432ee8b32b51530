package identity

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/platform/api"
	"slipway.dev/services/platform/audit"
)

// signInTTL is how long a user may take to sign in at the provider, and again to consent.
const signInTTL = 10 * time.Minute

// OIDC configures the provider that is trusted to identify users. The zero value disables
// sign-in at a provider.
type OIDC struct {
	// Issuer is the provider's address, as in its discovery document.
	Issuer string
	// ClientID and ClientSecret are this platform's credentials at the provider; a public
	// client has no secret.
	ClientID, ClientSecret string
	// AutoCreate lists domains of e-mail addresses. The first sign-in with a verified address
	// of such a domain creates a user. The entry "groups" does so for users in a group that has
	// a role, and the entry "invitations" for users whose address is invited, or "invitations@" and
	// a domain if the address also is of this domain.
	AutoCreate []string
	// Scopes are requested in addition to openid and email. GroupsClaim is the claim with the
	// user's groups; "" ignores groups.
	Scopes      []string
	GroupsClaim string
}

// A provider is a client of the OIDC provider. It fetches the discovery document at the first
// sign-in, so that a platform can start while the provider is down.
type provider struct {
	OIDC
	callback string
	client   *http.Client

	mu    sync.Mutex
	found *oidc.Provider
}

func newProvider(d Deps) *provider {
	return &provider{OIDC: d.OIDC, callback: d.Endpoint + "/oauth/callback", client: &http.Client{
		Timeout: 15 * time.Second, Transport: boundedTransport{http.DefaultTransport},
	}}
}

// A boundedTransport limits the size of the provider's responses, since the OIDC libraries read
// responses of any size.
type boundedTransport struct{ http.RoundTripper }

func (m boundedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := m.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = http.MaxBytesReader(nil, resp.Body, limits.ProviderAnswer)
	}
	return resp, err
}

// discover returns the provider and the OAuth 2.0 configuration for it.
func (p *provider) discover(ctx context.Context) (*oidc.Provider, *oauth2.Config, error) {
	if p.Issuer == "" {
		return nil, nil, fault.Unsupported.Newf("Sign-in at a provider is disabled (setting oidc_issuer)")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.found == nil {
		found, err := oidc.NewProvider(p.context(ctx), p.Issuer)
		if err != nil {
			return nil, nil, p.unavailable(err)
		}
		p.found = found
	}
	return p.found, &oauth2.Config{
		ClientID: p.ClientID, ClientSecret: p.ClientSecret, Endpoint: p.found.Endpoint(), RedirectURL: p.callback,
		Scopes: append([]string{oidc.ScopeOpenID, "email"}, p.Scopes...),
	}, nil
}

// CheckProvider fetches the discovery document of a provider, as the first sign-in does. It returns
// an error if the provider cannot be used, and the address of the platform at an endpoint to which
// the provider sends users back.
func CheckProvider(ctx context.Context, o OIDC, endpoint string) (callback string, err error) {
	p := newProvider(Deps{OIDC: o, Endpoint: endpoint})
	_, err = oidc.NewProvider(p.context(ctx), p.Issuer)
	return p.callback, err
}

func (p *provider) context(ctx context.Context) context.Context {
	return oidc.ClientContext(ctx, p.client)
}

// unavailable returns the fault for a provider that does not respond.
func (p *provider) unavailable(cause error) error {
	return fault.Unavailable.New("The sign-in provider "+p.Issuer+" does not respond; try again", cause).After(5 * time.Second)
}

// BeginSignIn returns the provider's address at which a user signs in. If the request has a
// program on the user's machine, the sign-in is for that program. Otherwise the user will enter
// the code of a device.
func (s *Service) BeginSignIn(ctx context.Context, req *platformv1.BeginSignInRequest) (*platformv1.BeginSignInResponse, error) {
	for name, v := range map[string]string{"state": req.GetState(), "redirect_uri": req.GetProgram().GetRedirectUri()} {
		if err := api.CheckLength(name, v, 1000); err != nil {
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

// FinishSignIn handles the provider's redirect. A program on the user's machine gets a code
// only after the user has consented, because any page can send a browser to the provider, and
// any process can listen on loopback. The service's own page gets its code immediately. Without
// a program the user next enters the code of a device.
func (s *Service) FinishSignIn(ctx context.Context, req *platformv1.FinishSignInRequest) (*platformv1.FinishSignInResponse, error) {
	in, err := s.store.takeSignIn(ctx, hashText(req.GetState()))
	if err != nil && !errors.Is(err, fault.NotFound) {
		return nil, fmt.Errorf("reading a sign-in: %w", err)
	}
	if err != nil || !s.deps.Now().Before(in.expires) {
		return nil, fault.Invalid.New("This sign-in is used or has expired; begin again", err)
	}
	u, err := s.signedInUser(ctx, req.GetCode(), in)
	if err != nil {
		return nil, err
	}
	p := in.program
	if s.isOwnPage(p.GetRedirectUri()) {
		text, err := s.createCode(ctx, tokenRecord{user: u}, p)
		if err != nil {
			return nil, err
		}
		to, err := withCode(p.GetRedirectUri(), text, in.programState)
		return &platformv1.FinishSignInResponse{RedirectUri: to}, err
	}
	if p.GetRedirectUri() == "" {
		text, err := s.storeConsent(ctx, code{kind: signInCode, userID: u.ID})
		return &platformv1.FinishSignInResponse{Consent: text, UserName: u.Name}, err
	}
	text, err := s.storeConsent(ctx, code{
		kind: consentCode, userID: u.ID, clientID: p.GetClientId(), redirectURI: p.GetRedirectUri(), challenge: p.GetCodeChallenge(), state: in.programState,
	})
	return &platformv1.FinishSignInResponse{Consent: text, UserName: u.Name, Program: p}, err
}

// signedInUser returns the user who has signed in at the provider. It records sign-ins that it
// rejects.
func (s *Service) signedInUser(ctx context.Context, code string, in pendingSignIn) (User, error) {
	token, err := s.identify(ctx, code, in)
	if err != nil {
		s.deps.Audit.Refuse(ctx, audit.Event{Action: "sign-in", Subject: in.program.GetClientId()}, err)
		return User{}, err
	}
	u, err := s.userOf(ctx, token)
	if err == nil {
		// Roles of invitations come first, since groups do not change roles that users have granted.
		s.acceptInvitationsOf(ctx, u, token)
		return u, s.applyGroups(ctx, u, token)
	}
	email := claimedEmail(token)
	s.deps.Audit.Refuse(ctx, audit.Event{
		Action: "sign-in", Subject: in.program.GetClientId(), After: map[string]any{"issuer": token.Issuer, "subject": token.Subject, "email": email},
	}, err)
	s.deps.Log.WarnContext(ctx, "A sign-in at the provider was rejected", "issuer", token.Issuer, "subject", token.Subject, "email", email, "err", err)
	return u, err
}

// claimedEmail returns the e-mail address in a token, which the provider may not have verified.
func claimedEmail(token signedIn) string {
	var claims struct {
		Email string `json:"email"`
	}
	_ = token.Claims(&claims) // on an error the address is empty
	return claims.Email
}

// identify exchanges the provider's code for an ID token and verifies it.
func (s *Service) identify(ctx context.Context, code string, in pendingSignIn) (signedIn, error) {
	found, config, err := s.oidc.discover(ctx)
	if err != nil {
		return signedIn{}, err
	}
	ctx = s.oidc.context(ctx)
	tokens, err := config.Exchange(ctx, code, oauth2.VerifierOption(in.verifier))
	var refused *oauth2.RetrieveError
	if errors.As(err, &refused) && refused.Response.StatusCode < http.StatusInternalServerError {
		return signedIn{}, errUnproven(errors.New("the provider refuses the code: " + refused.ErrorCode))
	}
	if err != nil {
		return signedIn{}, s.oidc.unavailable(errors.New("exchanging the code")) // the cause may contain secrets
	}
	raw, _ := tokens.Extra("id_token").(string)
	token, err := found.VerifierContext(ctx, &oidc.Config{ClientID: s.oidc.ClientID, Now: s.deps.Now}).Verify(ctx, raw)
	if err == nil && token.Nonce != in.nonce {
		err = errors.New("the nonce belongs to another sign-in")
	}
	if err == nil {
		err = s.checkParty(token)
	}
	if err != nil {
		return signedIn{}, errUnproven(err)
	}
	groups, ok, err := s.readGroups(ctx, found, tokens, token)
	return signedIn{token, groups, ok}, err
}

// errUnproven returns the fault for a sign-in without a valid ID token.
func errUnproven(cause error) error {
	return fault.Denied.New("The sign-in provider did not confirm your identity; begin again", cause)
}

// userOf returns the user who is linked to the token's subject. If no user is linked, it links
// the user whose e-mail address the provider has verified. It creates the user if AutoCreate
// has the address's domain. At most one subject of an issuer is linked to a user: providers
// assign the address of a deleted account to another person, who must not get the first
// person's account.
func (s *Service) userOf(ctx context.Context, token signedIn) (User, error) {
	u, err := s.store.userLoggedIn(ctx, token.Issuer, token.Subject)
	if errors.Is(err, fault.NotFound) {
		return s.linkUser(ctx, token)
	}
	if err == nil && !u.Disabled.IsZero() {
		err = errDisabled()
	}
	return u, err
}

// linkUser links the user with the token's verified e-mail address to its subject.
func (s *Service) linkUser(ctx context.Context, token signedIn) (User, error) {
	email, verified, err := emailOf(token.IDToken)
	if err != nil {
		return User{}, errUnproven(err)
	}
	if !verified {
		return User{}, fault.Denied.Newf("The sign-in provider has not verified your e-mail address")
	}
	u, err := s.store.userWithEmail(ctx, email)
	if errors.Is(err, fault.NotFound) {
		u, err = s.createAtSignIn(ctx, token, email)
	}
	if errors.Is(err, fault.NotFound) {
		return User{}, fault.Denied.New("There is no user with your e-mail address here; ask an administrator of this server for an account", err)
	}
	if err != nil {
		return User{}, fmt.Errorf("reading a user: %w", err)
	}
	if !u.Disabled.IsZero() {
		return User{}, errDisabled()
	}
	linked, err := s.store.linkLogin(ctx, token.Issuer, token.Subject, u, s.deps.Now())
	if err != nil {
		return User{}, fmt.Errorf("writing a login of user %d: %w", u.ID, err)
	}
	if linked {
		return u, nil
	}
	// Either another request has just linked this subject, or another subject is linked.
	if u, err = s.store.userLoggedIn(ctx, token.Issuer, token.Subject); errors.Is(err, fault.NotFound) {
		return User{}, fault.Denied.New("The user with your e-mail address is linked to another account at the sign-in provider; "+
			"if that account was yours, ask an administrator of this server to unlink it", err)
	}
	return u, err
}

// emailOf returns the e-mail address in a token, and whether the provider has verified it.
func emailOf(token *oidc.IDToken) (email string, verified bool, err error) {
	var claims struct {
		Email    string `json:"email"`
		Verified bool   `json:"email_verified"`
	}
	err = token.Claims(&claims)
	return claims.Email, err == nil && claims.Verified && claims.Email != "", err
}

// createAtSignIn creates a user with the verified address of a token if the settings allow it, and
// returns fault.NotFound otherwise.
func (s *Service) createAtSignIn(ctx context.Context, token signedIn, email string) (User, error) {
	if s.oidc.creates(email) || s.createsByGroup(token.groups) {
		return s.createSignedIn(ctx, token.IDToken, email, false)
	}
	invited, err := s.createsByInvitation(ctx, email)
	if err != nil {
		return User{}, err
	}
	if !invited {
		return User{}, fault.NotFound.Newf("No user has the address")
	}
	return s.createSignedIn(ctx, token.IDToken, email, true)
}

func errDisabled() error {
	return fault.Denied.Newf("Your account here is disabled; ask an administrator of this server to enable it")
}

// checkParty returns an error unless the token was issued to this platform. A token for several
// audiences must name the client that it was issued to, and no token may name another client
// (OpenID Connect Core 1.0, 3.1.3.7).
func (s *Service) checkParty(token *oidc.IDToken) error {
	var claims struct {
		Party *string `json:"azp"`
	}
	if err := token.Claims(&claims); err != nil {
		return err
	}
	switch {
	case claims.Party != nil && *claims.Party != s.oidc.ClientID:
		return fmt.Errorf("the ID token was issued to %q", *claims.Party)
	case claims.Party == nil && len(token.Audience) > 1:
		return fmt.Errorf("the ID token for %q does not name the client that it was issued to", token.Audience)
	}
	return nil
}

func hashText(s string) []byte {
	h := sha256.Sum256([]byte(s))
	return h[:]
}
