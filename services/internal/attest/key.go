package attest

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"

	"slipway.dev/services/internal/limits"
)

// A Signer signs statements with one key, or with certified keys. It is safe for concurrent use if
// its crypto.Signer or Certifier is.
type Signer struct {
	key  crypto.Signer
	hint string
	// certifier replaces key; nil for a signer with one key.
	certifier Certifier
	// isRandom states that the key signs the same message differently each time.
	isRandom bool
	stored   Signatures
}

// Signatures stores signatures, so that every replica returns the same.
type Signatures interface {
	// Signature returns the stored signature of a message, which its SHA-256 in hex identifies. The
	// argument key is the KeyHint of the public key, or the Identity of a Certifier. The first time,
	// it stores and returns the result of sign.
	Signature(ctx context.Context, key, message string, sign func() ([]byte, error)) ([]byte, error)
}

// NewSigner returns a signer. The key must be ECDSA with the curve P-256. Unless it signs
// deterministically, Storing must be called before anything is signed.
func NewSigner(key crypto.Signer) (*Signer, error) {
	public, ok := key.Public().(*ecdsa.PublicKey)
	if !ok || public.Curve != elliptic.P256() {
		return nil, errors.New("the signing key is not an ECDSA key with the curve P-256, which cosign verifies")
	}
	s := &Signer{key: key, hint: KeyHint(public)}
	probe := []byte("slipway")
	var signatures [2][]byte
	for i := range signatures {
		var err error
		if signatures[i], err = crypto.SignMessage(key, nil, probe, crypto.SHA256); err != nil {
			return nil, fmt.Errorf("the key cannot sign: %w", err)
		}
	}
	if !ecdsa.VerifyASN1(public, hash(probe), signatures[0]) {
		return nil, errors.New("the key's signatures do not match its public key")
	}
	s.isRandom = !bytes.Equal(signatures[0], signatures[1])
	return s, nil
}

// IsDeterministic reports whether the key returns the same signature for the same message.
func (s *Signer) IsDeterministic() bool { return !s.isRandom }

// Storing returns a signer with the same key that stores its signatures, unless the key signs
// deterministically.
func (s *Signer) Storing(in Signatures) *Signer {
	out := *s
	out.stored = in
	return &out
}

// Public returns the public key; nil if certified keys sign.
func (s *Signer) Public() *ecdsa.PublicKey {
	if s.certifier != nil {
		return nil
	}
	public, _ := s.key.Public().(*ecdsa.PublicKey) // NewSigner accepts no other key
	return public
}

func (s *Signer) sign(ctx context.Context, message []byte) ([]byte, error) {
	sign := func() ([]byte, error) {
		signature, err := crypto.SignMessage(s.key, nil, message, crypto.SHA256)
		if err != nil {
			return nil, fmt.Errorf("signing a statement: %w", err)
		}
		return signature, nil
	}
	switch {
	case s.certifier != nil:
		return nil, errors.New("a certificate of signing_fulcio is for statements only")
	case !s.isRandom:
		return sign()
	case s.stored == nil:
		return nil, errors.New("the key does not sign deterministically, and its signatures cannot be stored: use a key file")
	}
	return s.stored.Signature(ctx, s.hint, hex.EncodeToString(hash(message)), sign)
}

// NewKey returns a new private key as PEM.
func NewKey() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: privateBlock, Bytes: der}), nil
}

// pemBegin begins a PEM block.
const pemBegin = "-----BEGIN "

const (
	privateBlock = "PRIVATE KEY"
	publicBlock  = "PUBLIC KEY"
)

// ParseKey reads a private key: PEM with PKCS#8, which is not encrypted.
func ParseKey(raw []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(raw)
	switch {
	case bytes.Count(raw, []byte(pemBegin)) > 1:
		return nil, errors.New("it has more than one PEM block")
	case block == nil:
		return nil, errors.New("it is not a PEM file")
	case block.Type != privateBlock:
		return nil, fmt.Errorf("its first block is %q, and a private key in PKCS#8, %q, is required: `openssl pkcs8 -topk8 -nocrypt` converts others", block.Type, privateBlock)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("it has no valid PKCS#8 key: %w", err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, errors.New("its key is not an ECDSA key with the curve P-256; create one with `openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256`")
	}
	return key, nil
}

// ParsePublicKeys reads a file with PEM blocks of public keys. Each must be an ECDSA key with the
// curve P-256.
func ParsePublicKeys(raw []byte) ([]*ecdsa.PublicKey, error) {
	var out []*ecdsa.PublicKey
	for rest := raw; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != publicBlock {
			return nil, fmt.Errorf("a block is %q instead of %q", block.Type, publicBlock)
		}
		parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("a public key is invalid: %w", err)
		}
		key, ok := parsed.(*ecdsa.PublicKey)
		if !ok || key.Curve != elliptic.P256() {
			return nil, errors.New("a key is not an ECDSA key with the curve P-256")
		}
		if out = append(out, key); len(out) > limits.SigningKeys {
			return nil, fmt.Errorf("there are more than %d keys", limits.SigningKeys)
		}
	}
	switch blocks := bytes.Count(raw, []byte(pemBegin)); {
	case blocks == 0:
		return nil, errors.New("there is no public key in PEM")
	case blocks != len(out):
		return nil, fmt.Errorf("%d of %d PEM blocks are damaged", blocks-len(out), blocks)
	}
	return out, nil
}

// PublicPEM returns public keys as PEM.
func PublicPEM(keys ...*ecdsa.PublicKey) ([]byte, error) {
	var out bytes.Buffer
	for _, k := range keys {
		der, err := x509.MarshalPKIXPublicKey(k)
		if err != nil {
			return nil, err
		}
		if err := pem.Encode(&out, &pem.Block{Type: publicBlock, Bytes: der}); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}

// KeyHint returns the identifier of a public key in bundles: its SHA-256 in base64. It is "" for an
// invalid key.
func KeyHint(key *ecdsa.PublicKey) string {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(der)
	return base64.StdEncoding.EncodeToString(sum[:])
}
