package keyless

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"slipway.dev/services/internal/limits"
)

// A token is an OpenID Connect token of this server. Its signature is not verified: Fulcio does that.
type token struct {
	raw     string
	subject [3]string // issuer, subject, e-mail address
	Expires time.Time // zero for never
}

// token reads the file again, since another program replaces it.
func (s *Signer) token() (token, error) {
	t, err := readToken(s.o.TokenFile)
	if err != nil {
		return t, fmt.Errorf("signing_identity_token_file: %s: %w", s.o.TokenFile, err)
	}
	return t, nil
}

// CheckToken returns an error for a file without a token.
func CheckToken(path string) error {
	_, err := readToken(path)
	return err
}

func readToken(path string) (token, error) {
	f, err := os.Open(path)
	if err != nil {
		return token{}, err
	}
	defer func() { _ = f.Close() }()
	raw, err := io.ReadAll(io.LimitReader(f, limits.IdentityToken+1))
	if err != nil {
		return token{}, err
	}
	return parseToken(raw)
}

// parseToken reads a JSON Web Token.
func parseToken(raw []byte) (token, error) {
	if len(raw) > limits.IdentityToken {
		return token{}, fmt.Errorf("it is larger than %d bytes", limits.IdentityToken)
	}
	t := token{raw: strings.TrimSpace(string(raw))}
	parts := strings.Split(t.raw, ".")
	if len(parts) != 3 {
		return token{}, errors.New("it is not a JSON Web Token")
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return token{}, errors.New("it is not a JSON Web Token: its payload is not base64")
	}
	var p struct {
		Issuer  string  `json:"iss"`
		Subject string  `json:"sub"`
		Email   string  `json:"email"`
		Expires float64 `json:"exp"`
	}
	if json.Unmarshal(payload, &p) != nil {
		return token{}, errors.New("it is not a JSON Web Token: its payload is not JSON")
	}
	if p.Issuer == "" || p.Subject == "" {
		return token{}, errors.New("it names no issuer, or no subject")
	}
	t.subject = [3]string{p.Issuer, p.Subject, p.Email}
	if p.Expires > 0 && p.Expires < 1<<40 {
		t.Expires = time.Unix(int64(p.Expires), 0)
	}
	return t, nil
}

// who identifies the subject of the token, and the certificate authority.
func (t token) who(o Options) string {
	raw, err := json.Marshal([]any{strings.TrimRight(o.Fulcio, "/"), t.subject})
	if err != nil {
		return "" // strings can be encoded
	}
	sum := sha256.Sum256(raw)
	return "certified:" + base64.StdEncoding.EncodeToString(sum[:])
}
