package federation

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/platform/api"
	"slipway.dev/services/platform/audit"
	"slipway.dev/services/platform/identity"
	"slipway.dev/services/platform/orgs"
)

// pairingTTL is how long a pairing works; a service pairs again in time.
const pairingTTL = 30 * 24 * time.Hour

// CreatePairing takes the public key of a service that may read credentials on
// behalf of those who have a token.
func (f *Service) CreatePairing(ctx context.Context, req *platformv1.CreatePairingRequest) (*platformv1.CreatePairingResponse, error) {
	key, err := parsePublicKey(req.GetPairing().GetPublicKey())
	if err != nil {
		return nil, fault.Invalid.New("publicKey must be an RSA key of 2048 to 8192 bits: base64 of its SubjectPublicKeyInfo, or PEM", err)
	}
	now := f.now()
	p := pairing{id: api.NewTextID(22), publicKey: x509.MarshalPKCS1PublicKey(key), operator: identity.CallerFrom(ctx).Operator, created: now, expires: now.Add(pairingTTL)}
	if err := f.store.insertPairing(ctx, p); err != nil {
		return nil, fmt.Errorf("writing a pairing: %w", err)
	}
	return &platformv1.CreatePairingResponse{PairingId: p.id, Expires: api.Instant(p.expires)}, f.trail.Note(ctx, audit.Event{Action: "pairing.create", Subject: p.id})
}

func parsePublicKey(s string) (*rsa.PublicKey, error) {
	der, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(s), ""))
	if block, _ := pem.Decode([]byte(s)); block != nil {
		der, err = block.Bytes, nil
	}
	if err != nil {
		return nil, err
	}
	any, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return nil, err
	}
	key, ok := any.(*rsa.PublicKey)
	if !ok || key.N.BitLen() < 2048 || key.N.BitLen() > 8192 {
		return nil, errors.New("not an RSA key of that size")
	}
	return key, nil
}

// GetCredentialsKeys returns a record's secrets so that only a paired service can
// read them.
func (f *Service) GetCredentialsKeys(ctx context.Context, req *platformv1.GetCredentialsKeysRequest) (*platformv1.GetCredentialsKeysResponse, error) {
	p := orgs.PrincipalFrom(ctx)
	version := max(req.GetVersion(), 1)
	if version > 2 || req.GetVersion() < 0 {
		return nil, fault.Invalid.Newf("version must be 1 or 2")
	}
	pair, err := f.store.pairing(ctx, req.GetPairingId(), f.now())
	if err != nil {
		return nil, fmt.Errorf("reading pairing %s: %w", req.GetPairingId(), err)
	}
	secret, err := f.records.Reveal(ctx, p, req.GetCredentialsId())
	if err != nil {
		return nil, err
	}
	plain, err := json.Marshal(secret)
	if err != nil {
		return nil, errors.New("writing a key packet") // no secret in the log
	}
	key, err := x509.ParsePKCS1PublicKey(pair.publicKey)
	if err != nil {
		return nil, fmt.Errorf("reading the key of pairing %s: %w", pair.id, err)
	}
	packet, err := pack(key, int(version), plain)
	return &platformv1.GetCredentialsKeysResponse{Keys: packet}, err
}
