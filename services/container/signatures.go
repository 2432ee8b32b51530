package container

import (
	"context"

	"slipway.dev/services/internal/fault"
)

// signatures stores the signatures of a key that does not sign deterministically, for all replicas.
type signatures struct{ of *Service }

// Signature implements attest.Signatures.
func (s signatures) Signature(ctx context.Context, key, message string, sign func() ([]byte, error)) ([]byte, error) {
	out, err := s.of.store.Signature(ctx, key, message)
	if out != nil || err != nil {
		return out, s.fault("reading a signature", err)
	}
	made, err := sign()
	if err != nil {
		return nil, fault.Unavailable.New("Images cannot be signed right now", err)
	}
	out, err = s.of.store.StoreSignature(ctx, key, message, made, s.of.deps.Now())
	return out, s.fault("storing a signature", err)
}

func (s signatures) fault(doing string, err error) error {
	if err == nil {
		return nil
	}
	return s.of.sqlFault(doing, err)
}
