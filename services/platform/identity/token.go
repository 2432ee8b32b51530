package identity

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// A token is an access token or a refresh token. Its text is the base64 of `{"tid":N}.<40 hex>`
// (gateway/contract/platform.md#access-tokens). N is the id by which it is looked up; the 160
// random bits after the dot are the secret.
type token struct {
	id     int64
	secret string
}

func newToken(id int64) token {
	var b [20]byte
	_, _ = rand.Read(b[:]) // never fails
	return token{id, hex.EncodeToString(b[:])}
}

// String returns the token as clients send it. The result is secret.
func (t token) String() string {
	return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, `{"tid":%d}.%s`, t.id, t.secret))
}

// hash returns the hash to store. The secret is long and random, so that a plain hash does not
// reveal it.
func (t token) hash() []byte {
	h := sha256.Sum256([]byte(t.secret))
	return h[:]
}

// matches reports whether hash is the hash of t's secret, in constant time.
func (t token) matches(hash []byte) bool {
	return subtle.ConstantTimeCompare(t.hash(), hash) == 1
}

var errToken = errors.New("not an access token of this platform")

func parseToken(s string) (token, error) {
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(s))
	if err != nil || len(raw) > 200 {
		return token{}, errToken
	}
	head, secret, ok := strings.Cut(string(raw), ".")
	if b, err := hex.DecodeString(secret); !ok || err != nil || len(b) != 20 {
		return token{}, errToken
	}
	var id struct {
		TID int64 `json:"tid"`
	}
	if err := json.Unmarshal([]byte(head), &id); err != nil || id.TID < 1 {
		return token{}, errToken
	}
	return token{id.TID, secret}, nil
}
