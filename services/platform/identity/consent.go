package identity

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/platform/api"
)

// storeConsent stores c under a new code and returns the code, for the page that a user sees
// after signing in at the provider. GrantConsent and DescribeDevice require the code, and only
// that page has it, so that another page cannot consent in the user's place.
func (s *Service) storeConsent(ctx context.Context, c code) (string, error) {
	text, now := api.NewTextID(40), s.deps.Now()
	c.hash, c.expires = hashText(text), now.Add(signInTTL)
	if err := s.store.putCode(ctx, c, now); err != nil {
		return "", fmt.Errorf("writing a consent: %w", err)
	}
	return text, nil
}

// GrantConsent issues a code to the program that a user consented to. Each consent works once.
func (s *Service) GrantConsent(ctx context.Context, req *platformv1.GrantConsentRequest) (*platformv1.GrantConsentResponse, error) {
	if err := s.chargeClient(ctx); err != nil {
		return nil, err
	}
	text := api.NewTextID(40)
	c, err := s.store.grantConsent(ctx, hashText(req.GetConsent()), hashText(text), s.deps.Now())
	if errors.Is(err, fault.NotFound) {
		return nil, fault.Denied.New("This sign-in is used or has expired after ten minutes; begin again", err)
	}
	if err != nil {
		return nil, fmt.Errorf("writing a code: %w", err)
	}
	resp := &platformv1.GrantConsentResponse{ClientId: c.clientID}
	if c.kind == programCode {
		resp.RedirectUri, err = withCode(c.redirectURI, text, c.state)
	}
	return resp, err
}

// withCode returns the address at which a program gets its code.
func withCode(redirectURI, code, state string) (string, error) {
	to, err := url.Parse(redirectURI)
	if err != nil {
		return "", fmt.Errorf("reading the redirect_uri of a program: %w", err) // checkRedirect has parsed it
	}
	q := to.Query()
	q.Set("code", code)
	if state != "" {
		q.Set("state", state)
	}
	to.RawQuery = q.Encode()
	return to.String(), nil
}
