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

	"github.com/maypok86/otter/v2"

	"slipway.dev/services/internal/memo"
	"slipway.dev/services/internal/oci"
)

// tokenKey names an Authorization header: good for one access to one repository.
type tokenKey struct {
	repo   Repository
	access Access
}

type authHeader struct {
	value   string
	expires time.Time
}

// tokenTTL is the life of a bearer token that does not state one (distribution
// specification, token authentication).
const tokenTTL = time.Minute

// authorizer remembers what each registry wanted to see.
type authorizer struct {
	client *Client
	known  *otter.Cache[tokenKey, authHeader]
	flight memo.Flight[tokenKey, string]
}

func newAuthorizer(c *Client) *authorizer {
	return &authorizer{client: c, known: otter.Must(&otter.Options[tokenKey, authHeader]{MaximumSize: 20_000})}
}

// header returns what was good the last time; "" when nothing is known.
func (a *authorizer) header(key tokenKey) string {
	h, ok := a.known.GetIfPresent(key)
	if !ok || time.Now().After(h.expires) {
		return ""
	}
	return h.value
}

// answer meets the challenge of a 401. "" means that there is nothing to answer
// with.
func (a *authorizer) answer(ctx context.Context, key tokenKey, resp *http.Response) (string, error) {
	a.known.Invalidate(key)
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
				a.known.Set(key, authHeader{h, time.Now().Add(time.Hour)})
				return h, nil
			}
		}
	}
	return "", nil
}

func basic(l Login) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(l.Username+":"+l.Password))
}

// allows says whether a token service may be reached by a scheme: by http only
// where the registry itself is.
func (a *authorizer) allows(scheme string, repo Repository) bool {
	return scheme == "https" || scheme == "http" && a.client.plain[repo.Host]
}

// bearer fetches a token from the realm that a registry names.
func (a *authorizer) bearer(ctx context.Context, key tokenKey, c challenge) (string, error) {
	ask := TokenRequest{
		Host: key.repo.Host, Realm: c.params["realm"], Service: c.params["service"],
		Scopes: strings.Fields(c.params["scope"]), Login: key.access.Login,
	}
	if len(ask.Scopes) == 0 && key.repo.Name != "" {
		ask.Scopes = []string{"repository:" + key.repo.Name + ":pull"}
	}
	h, err := a.fetch(ctx, ask)
	if err != nil {
		return "", err
	}
	a.known.Set(key, h)
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
	// A token that ends while it travels helps nobody.
	return authHeader{"Bearer " + t.Token, time.Now().Add(life * 9 / 10)}, nil
}
