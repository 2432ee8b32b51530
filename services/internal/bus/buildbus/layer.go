package buildbus

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"time"
)

// A LayerRecord is a value in ClaimBucket: a statement of a worker about a layer that it
// built, with the worker's signature.
type LayerRecord struct {
	// KeyID identifies the key that signed the record; see the function KeyID.
	KeyID string
	// SignedAt is the time of the signature, in whole microseconds.
	SignedAt time.Time
	// Content is the statement. It shares memory with the parsed value.
	Content []byte

	raw []byte
}

// The encoding of a LayerRecord: a version, the key's id, the time in microseconds since
// the epoch, the signature, then the content. There is only one way to encode a record.
const (
	recordVersion = 1
	keyAt         = 1
	timeAt        = keyAt + sha256.Size
	signatureAt   = timeAt + 8
	contentAt     = signatureAt + ed25519.SignatureSize
)

// Prefixes of signed data, so that a signature is only valid for its purpose.
const (
	recordPurpose = "slipway layer record 1\n"
	proofPurpose  = "slipway worker key 1\n"
)

// ErrRecord is returned for a value that is not a signed record.
var ErrRecord = errors.New("the layer record is malformed or not signed")

// ErrSignature is returned for a record that was not signed by the key, or for another
// layer or repository.
var ErrSignature = errors.New("the signature of the layer record is not valid for this layer and repository")

// KeyID returns the SHA-256 of a public key as 64 hex digits.
func KeyID(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:])
}

// SignLayer encodes and signs a record. name is the layer's key in ClaimBucket, which
// identifies the layer and the repository (conda.LayerKey.At). The record is not valid for
// any other name.
func SignLayer(key ed25519.PrivateKey, name string, at time.Time, content []byte) []byte {
	out := make([]byte, contentAt, contentAt+len(content))
	public, _ := key.Public().(ed25519.PublicKey)
	id := sha256.Sum256(public)
	out[0] = recordVersion
	copy(out[keyAt:], id[:])
	binary.BigEndian.PutUint64(out[timeAt:], uint64(at.UnixMicro()))
	out = append(out, content...)
	copy(out[signatureAt:], ed25519.Sign(key, signedBytes(name, out)))
	return out
}

// ParseLayer decodes a record without verifying its signature. It returns ErrRecord for
// other values.
func ParseLayer(raw []byte) (LayerRecord, error) {
	if len(raw) <= contentAt || raw[0] != recordVersion {
		return LayerRecord{}, ErrRecord
	}
	return LayerRecord{
		KeyID:    hex.EncodeToString(raw[keyAt:timeAt]),
		SignedAt: time.UnixMicro(int64(binary.BigEndian.Uint64(raw[timeAt:]))),
		Content:  raw[contentAt:], raw: raw,
	}, nil
}

// Verify returns ErrSignature unless key signed the record for name, at or after
// notBefore.
func (r LayerRecord) Verify(key ed25519.PublicKey, name string, notBefore time.Time) error {
	if len(key) != ed25519.PublicKeySize || KeyID(key) != r.KeyID || r.SignedAt.Before(notBefore) ||
		!ed25519.Verify(key, signedBytes(name, r.raw), r.raw[signatureAt:contentAt]) {
		return ErrSignature
	}
	return nil
}

// signedBytes returns the data that a record's signature covers: the layer and repository,
// the key, the time and the content. The name is prefixed with its length, so that the
// encoding is unambiguous.
func signedBytes(name string, raw []byte) []byte {
	sum := sha256.Sum256(raw[contentAt:])
	out := make([]byte, 0, len(recordPurpose)+8+len(name)+signatureAt+len(sum))
	out = append(out, recordPurpose...)
	out = binary.BigEndian.AppendUint64(out, uint64(len(name)))
	out = append(out, name...)
	out = append(out, raw[:signatureAt]...)
	return append(out, sum[:]...)
}

// ProveKey returns a proof that a worker owns a private key.
func ProveKey(key ed25519.PrivateKey, worker string) []byte {
	return ed25519.Sign(key, []byte(proofPurpose+worker))
}

// HasKey reports whether ProveKey created proof for this key and worker.
func HasKey(key ed25519.PublicKey, worker string, proof []byte) bool {
	return len(key) == ed25519.PublicKeySize && ed25519.Verify(key, []byte(proofPurpose+worker), proof)
}
