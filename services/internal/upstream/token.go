package upstream

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"slipway.dev/services/internal/limits"
)

// A TokenRequest is a request to the token service of a registry.
type TokenRequest struct {
	// Host is the registry whose challenge named the service.
	Host string
	// Realm and Service are from the challenge.
	Realm, Service string
	// Scopes are the requested scopes, e.g. "repository:team/app:pull,push".
	Scopes []string
	// Login is sent to the service. The zero value requests anonymous access.
	Login Login
}

// Token fetches a bearer token and returns it with its expiry time. It is not cached. See
// the distribution specification, token authentication.
func (c *Client) Token(ctx context.Context, r TokenRequest) (token string, expires time.Time, err error) {
	h, err := c.auth.fetch(ctx, r)
	return strings.TrimPrefix(h.value, "Bearer "), h.expires, err
}

func (a *authorizer) fetch(ctx context.Context, r TokenRequest) (authHeader, error) {
	realm, err := url.Parse(r.Realm)
	if err != nil || !a.allows(realm.Scheme, Repository{Host: r.Host}) || realm.User != nil || realm.Host == "" {
		return authHeader{}, fmt.Errorf("%s names a token service that is not https: %.200q", r.Host, r.Realm)
	}
	q := realm.Query()
	if r.Service != "" {
		q.Set("service", r.Service)
	}
	if len(r.Scopes) > 0 {
		q["scope"] = r.Scopes
	}
	realm.RawQuery = q.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, realm.String(), nil)
	if err != nil {
		return authHeader{}, err
	}
	if r.Login != (Login{}) {
		req.Header.Set("Authorization", basic(r.Login))
	}
	resp, err := a.client.send(req)
	if err != nil {
		return authHeader{}, err
	}
	defer drain(resp)
	if resp.StatusCode != http.StatusOK {
		return authHeader{}, &statusError{r.Host, resp.StatusCode, RetryAfter(resp)}
	}
	h, err := readToken(io.LimitReader(resp.Body, limits.TokenAnswer))
	if err != nil {
		return h, fmt.Errorf("the token service of %s: %w", r.Host, err)
	}
	return h, nil
}
