package testkit

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/coreos/go-oidc/v3/oidc/oidctest"
)

// The client ID and secret of the platform at an Issuer.
const (
	IssuerClient = "slipway"
	IssuerSecret = "s3cret"
)

// An Issuer is an OpenID Connect provider that signs in every user immediately, with the
// claims in Claims.
type Issuer struct {
	*httptest.Server

	// Email is the verified e-mail address that /auth sets in the claims.
	Email string
	// Claims and Challenge are those of the last sign-in.
	Claims    map[string]any
	Challenge string
	// Down makes it respond with 502.
	Down bool

	key *rsa.PrivateKey
}

// NewIssuer starts an Issuer that ends with the test.
func NewIssuer(t testing.TB) *Issuer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	i := &Issuer{key: key}
	keys := &oidctest.Server{PublicKeys: []oidctest.PublicKey{{PublicKey: key.Public(), KeyID: "k", Algorithm: oidc.RS256}}}
	mux := http.NewServeMux()
	mux.Handle("/", keys)
	mux.HandleFunc("GET /auth", i.auth)
	mux.HandleFunc("POST /token", i.token)
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if i.Down {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(i.Close)
	keys.SetIssuer(i.URL)
	return i
}

// Sign returns a signed token with claims.
func (i *Issuer) Sign(claims map[string]any) (string, error) {
	raw, err := json.Marshal(claims)
	return oidctest.SignIDToken(i.key, "k", oidc.RS256, string(raw)), err
}

// auth redirects the browser back with the code "good".
func (i *Issuer) auth(w http.ResponseWriter, r *http.Request) {
	q, now := r.URL.Query(), time.Now()
	i.Challenge = q.Get("code_challenge")
	i.Claims = map[string]any{
		"iss": i.URL, "aud": q.Get("client_id"), "sub": i.Email, "nonce": q.Get("nonce"), "iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
		"email": i.Email, "email_verified": true,
	}
	back := url.Values{"code": {"good"}, "state": {q.Get("state")}}
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
}

// token exchanges the code "good" for an ID token if the secret and the verifier are
// correct.
func (i *Issuer) token(w http.ResponseWriter, r *http.Request) {
	name, secret, _ := r.BasicAuth()
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	w.Header().Set("Content-Type", "application/json")
	if name != IssuerClient || secret != IssuerSecret || r.FormValue("code") != "good" || base64.RawURLEncoding.EncodeToString(sum[:]) != i.Challenge {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error":"invalid_grant"}`))
		return
	}
	claims, err := json.Marshal(i.Claims)
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{ // fails if the client disconnected
		"access_token": "x", "token_type": "Bearer", "id_token": oidctest.SignIDToken(i.key, "k", oidc.RS256, string(claims)),
	})
}
