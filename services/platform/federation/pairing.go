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
	"slipway.dev/services/platform/identity"
	"slipway.dev/services/platform/orgs"
)

// pairingTTL is the lifetime of a pairing. Services pair again before it expires.
const pairingTTL = 30 * 24 * time.Hour

// CreatePairing registers the public key of a service, which may then read credentials with
// the access tokens of users. Only operators may call it.
func (f *Service) CreatePairing(ctx context.Context, req *platformv1.CreatePairingRequest) (*platformv1.CreatePairingResponse, error) {
	key, err := parsePublicKey(req.GetPairing().GetPublicKey())
	if err != nil {
		return nil, fault.Invalid.New("publicKey must be an RSA key of 2048 to 8192 bits: base64 of its SubjectPublicKeyInfo, or PEM", err)
	}
	now := f.now()
	p := pairing{id: api.NewTextID(22), publicKey: x509.MarshalPKCS1PublicKey(key), operator: identity.CallerFrom(ctx).Operator, created: now, expires: now.Add(pairingTTL)}
	if err := f.store.insertPairing(ctx, f.audit, p); err != nil {
		return nil, fmt.Errorf("writing a pairing: %w", err)
	}
	return &platformv1.CreatePairingResponse{PairingId: p.id, Expires: api.Timestamp(p.expires)}, nil
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
		return nil, errors.New("not an RSA key of a supported size")
	}
	return key, nil
}

// GetCredentialsKeys returns a record's secrets, encrypted for a paired service.
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
		return nil, errors.New("encoding a key packet") // the cause may contain the secret
	}
	key, err := x509.ParsePKCS1PublicKey(pair.publicKey)
	if err != nil {
		return nil, fmt.Errorf("reading the key of pairing %s: %w", pair.id, err)
	}
	packet, err := pack(key, int(version), plain)
	return &platformv1.GetCredentialsKeysResponse{Keys: packet}, err
}
