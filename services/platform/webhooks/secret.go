package webhooks

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"slipway.dev/services/platform/vault"
)

// secretPrefix begins each secret (Standard Webhooks). The base64 of the key follows.
const secretPrefix = "whsec_"

// overlap is how long messages are also signed with a previous secret.
const overlap = 24 * time.Hour

// A secret signs messages. The secrets of a webhook are sealed as a JSON list, the newest first.
type secret struct {
	Key []byte `json:"key"`
	// Until is when the secret ends; the zero value means never.
	Until time.Time `json:"until,omitzero"`
}

func newSecret() secret {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	return secret{Key: key}
}

// String returns the form that the receiver gets.
func (s secret) String() string { return secretPrefix + base64.StdEncoding.EncodeToString(s.Key) }

// seal encrypts the secrets of the hook with an id.
func seal(keys *vault.Keys, id string, secrets ...secret) (vault.Envelope, error) {
	raw, err := json.Marshal(secrets)
	if err != nil {
		return vault.Envelope{}, err
	}
	return keys.Seal(id, raw)
}

// open returns the valid secrets of a hook.
func open(keys *vault.Keys, h hook, now time.Time) ([]secret, error) {
	raw, err := keys.Open(h.id, h.envelope)
	if err != nil {
		return nil, err
	}
	var all, valid []secret
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, fmt.Errorf("reading the secrets of webhook %s: %w", h.id, err)
	}
	for _, s := range all {
		if s.Until.IsZero() || now.Before(s.Until) {
			valid = append(valid, s)
		}
	}
	return valid, nil
}

// maxSecrets is the maximum number of secrets that a message is signed with.
const maxSecrets = 5

// renewed returns the secrets of a hook after a new one was added. The previous ones sign until
// the end of the overlap.
func renewed(valid []secret, now time.Time) []secret {
	out := []secret{newSecret()}
	for _, previous := range valid[:min(len(valid), maxSecrets-1)] {
		if previous.Until.IsZero() {
			previous.Until = now.Add(overlap)
		}
		out = append(out, previous)
	}
	return out
}

// signature returns the value of the header webhook-signature: one signature for each secret.
func signature(secrets []secret, id string, at time.Time, body string) string {
	var all []string
	for _, s := range secrets {
		mac := hmac.New(sha256.New, s.Key)
		_, _ = mac.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + "." + body)) // never fails
		all = append(all, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return strings.Join(all, " ")
}
