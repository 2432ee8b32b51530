package identity

import (
	"context"
	"crypto/hmac"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/platform/vault"
)

// claims are the claims of a JWT of this platform. The JWT is signed with HS256 under a key
// derived from the master key that `kid` names.
type claims struct {
	Issuer  string `json:"iss"`
	Subject int64  `json:"sub,string"`
	Session int64  `json:"sid,string"`
	Issued  int64  `json:"iat"`
	Expires int64  `json:"exp"`
}

type jwtHeader struct {
	Algorithm string `json:"alg"`
	KeyID     string `json:"kid"`
	Type      string `json:"typ"`
}

// sign returns a signed JWT.
func sign(k *vault.Keys, c claims) (string, error) {
	id, err := k.CurrentID()
	if err != nil {
		return "", err
	}
	head, err := json.Marshal(jwtHeader{"HS256", id, "JWT"})
	if err != nil {
		return "", err
	}
	body, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	text := raw64(head) + "." + raw64(body)
	mac, err := k.MAC(id, text)
	return text + "." + raw64(mac), err
}

func raw64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// verify checks the signature of a JWT and returns its claims. It does not check whether the JWT
// has expired.
func verify(k *vault.Keys, s string) (claims, error) {
	var c claims
	var h jwtHeader
	parts := strings.Split(s, ".")
	if len(parts) != 3 || len(s) > 2000 {
		return c, errors.New("not a JWT")
	}
	if err := readPart(parts[0], &h); err != nil || h.Algorithm != "HS256" {
		return c, errors.New("not a JWT of this platform")
	}
	want, err := k.MAC(h.KeyID, parts[0]+"."+parts[1])
	if err != nil {
		return c, err
	}
	mac, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || !hmac.Equal(mac, want) {
		return c, errors.New("the JWT's signature is wrong")
	}
	return c, readPart(parts[1], &c)
}

func readPart(s string, v any) error {
	raw, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, v)
}

// isJWT reports whether an access token is a JWT rather than a token of platform_tokens.
func isJWT(s string) bool { return strings.Count(s, ".") == 2 }

// authenticateJWT returns the session of a JWT with its user. If the JWT is valid but has
// expired, the fault has the metadata refresh=true, so that the client refreshes it.
func (s *Service) authenticateJWT(ctx context.Context, text string) (tokenRecord, error) {
	if s.deps.Keys == nil {
		return tokenRecord{}, errInvalidToken(errors.New("a JWT, but there is no master key"))
	}
	c, err := verify(s.deps.Keys, text)
	if err != nil {
		return tokenRecord{}, errInvalidToken(err)
	}
	if now := s.deps.Now(); now.Unix() >= c.Expires {
		e := fault.Unauthenticated.New("The access token has expired", fmt.Errorf("at %s", time.Unix(c.Expires, 0).UTC()))
		e.Meta = map[string]string{"refresh": "true"}
		return tokenRecord{}, e
	}
	v, err := s.store.session(ctx, c.Session, s.deps.Now())
	if errors.Is(err, fault.NotFound) || err == nil && v.user.ID != c.Subject {
		return tokenRecord{}, errInvalidToken(fmt.Errorf("session %d has ended", c.Session))
	}
	if err != nil {
		return tokenRecord{}, fmt.Errorf("reading session %d: %w", c.Session, err)
	}
	return tokenRecord{id: v.id, user: v.user}, nil
}
