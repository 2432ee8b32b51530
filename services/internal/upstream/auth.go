package upstream

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"slipway.dev/services/internal/memo"
	"slipway.dev/services/internal/oci"
)

// A tokenKey identifies an Authorization header, which is valid for one access to one
// repository, for reading or for pushing too.
type tokenKey struct {
	repo   Repository
	access Access
	push   bool
}

type authHeader struct {
	value   string
	expires time.Time
}

// tokenTTL is the validity of a bearer token whose response does not state one
// (distribution specification, token authentication).
const tokenTTL = time.Minute

// An authorizer answers the authentication challenges of registries and caches the
// resulting Authorization headers.
type authorizer struct {
	client *Client
	cache  *memo.Cache[tokenKey, authHeader]
	flight memo.Flight[tokenKey, string]
}

func newAuthorizer(c *Client) *authorizer {
	return &authorizer{client: c, cache: memo.NewCache(memo.Options[tokenKey, authHeader]{Most: 20_000})}
}

// header returns the cached header, or "" if no valid one is cached.
func (a *authorizer) header(key tokenKey) string {
	h, ok := a.cache.Get(key)
	if !ok || time.Now().After(h.expires) {
		return ""
	}
	return h.value
}

// authorize returns the header for the challenge in a 401 response, or "" if the challenge
// cannot be met.
func (a *authorizer) authorize(ctx context.Context, key tokenKey, resp *http.Response) (string, error) {
	a.cache.Delete(key)
	for _, line := range resp.Header.Values("Www-Authenticate") {
		challenges, err := parseChallenges(line)
		if err != nil && len(challenges) == 0 {
			return "", fmt.Errorf("reading the challenge of %s: %w", key.repo.Host, err)
		}
		for _, c := range challenges {
			switch {
			case c.scheme == "bearer" && c.params["realm"] != "":
				return a.flight.Do(ctx, key, func(ctx context.Context) (string, error) { return a.bearer(ctx, key, c) })
			case c.scheme == "basic" && key.access.Login != (Login{}):
				h := basic(key.access.Login)
				a.cache.Set(key, authHeader{h, time.Now().Add(time.Hour)})
				return h, nil
			}
		}
	}
	return "", nil
}

func basic(l Login) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(l.Username+":"+l.Password))
}

// allows reports whether a token service may be used with a scheme. http is only allowed if
// the registry uses it as well.
func (a *authorizer) allows(scheme string, repo Repository) bool {
	return scheme == "https" || scheme == "http" && a.client.plain[repo.Host]
}

// bearer fetches a token from the realm in a registry's challenge.
func (a *authorizer) bearer(ctx context.Context, key tokenKey, c challenge) (string, error) {
	request := TokenRequest{
		Host: key.repo.Host, Realm: c.params["realm"], Service: c.params["service"],
		Scopes: strings.Fields(c.params["scope"]), Login: key.access.Login,
	}
	switch {
	case key.push: // the challenge of a request for the status of an upload is for reading
		request.Scopes = []string{"repository:" + key.repo.Name + ":pull,push"}
	case len(request.Scopes) == 0 && key.repo.Name != "":
		request.Scopes = []string{"repository:" + key.repo.Name + ":pull"}
	}
	h, err := a.fetch(ctx, request)
	if err != nil {
		return "", err
	}
	a.cache.Set(key, h)
	return h.value, nil
}

func readToken(r io.Reader) (authHeader, error) {
	var t struct {
		Token       string  `json:"token"`
		AccessToken string  `json:"access_token"`
		ExpiresIn   float64 `json:"expires_in"`
	}
	raw, err := io.ReadAll(r)
	if err != nil {
		return authHeader{}, err
	}
	if err := oci.Decode(raw, &t); err != nil {
		return authHeader{}, fmt.Errorf("its answer is not JSON: %w", err)
	}
	if t.Token == "" {
		t.Token = t.AccessToken
	}
	if t.Token == "" || strings.ContainsFunc(t.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return authHeader{}, errors.New("no token in its answer")
	}
	life := tokenTTL
	if t.ExpiresIn > 0 && t.ExpiresIn < 1e6 {
		life = time.Duration(t.ExpiresIn * float64(time.Second))
	}
	// A token must not expire while a request with it is sent.
	return authHeader{"Bearer " + t.Token, time.Now().Add(life * 9 / 10)}, nil
}
