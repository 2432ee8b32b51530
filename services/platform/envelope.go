package platform

import (
	"context"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"

	"slipway.dev/services/internal/fault"
)

// envelope is a sealed secret: AES-256-GCM under a data key of its own, which a
// master key wraps.
type envelope struct {
	sealed, dataKey []byte
	keyID           string
}

// seal encrypts a secret of a record. The record's id is bound to it: it cannot be
// moved to another.
func (k *Keys) seal(id string, secret []byte) (envelope, error) {
	master, err := k.current()
	if err != nil {
		return envelope{}, err
	}
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails
	data, err := sealer(key[:])
	if err != nil {
		return envelope{}, err
	}
	return envelope{sealed: encrypt(data, id, secret), dataKey: encrypt(master.aead, id, key[:]), keyID: master.id}, nil
}

// open decrypts.
func (k *Keys) open(id string, e envelope) ([]byte, error) {
	key, err := k.unwrap(id, e)
	if err != nil {
		return nil, err
	}
	data, err := sealer(key)
	if err != nil {
		return nil, err
	}
	return decrypt(data, id, e.sealed)
}

func (k *Keys) unwrap(id string, e envelope) ([]byte, error) {
	master, err := k.find(e.keyID)
	if err != nil {
		return nil, err
	}
	return decrypt(master.aead, id, e.dataKey)
}

// rewrap answers the envelope under the current master key.
func (k *Keys) rewrap(id string, e envelope) (envelope, error) {
	key, err := k.unwrap(id, e)
	if err != nil {
		return envelope{}, err
	}
	master, err := k.current()
	if err != nil {
		return envelope{}, err
	}
	return envelope{sealed: e.sealed, dataKey: encrypt(master.aead, id, key), keyID: master.id}, nil
}

func encrypt(a cipher.AEAD, id string, plain []byte) []byte {
	nonce := make([]byte, a.NonceSize())
	_, _ = rand.Read(nonce) // never fails
	return a.Seal(nonce, nonce, plain, []byte(id))
}

func decrypt(a cipher.AEAD, id string, sealed []byte) ([]byte, error) {
	if len(sealed) < a.NonceSize() {
		return nil, errors.New("a sealed secret is too short")
	}
	plain, err := a.Open(nil, sealed[:a.NonceSize()], sealed[a.NonceSize():], []byte(id))
	if err != nil {
		return nil, fmt.Errorf("opening the secret of %s: %w", id, err)
	}
	return plain, nil
}

// keys answers the keys, or why there are none.
func (s *Service) keys() (*Keys, error) {
	if s.deps.Keys == nil {
		return nil, fault.Unsupported.Newf("Credentials and signing in are switched off: the platform has no master_key_file")
	}
	return s.deps.Keys, nil
}

// CheckKeys says whether every stored secret can be opened; a process that cannot
// must not start. The error names the key that is missing.
func (s *Service) CheckKeys(ctx context.Context) error {
	for _, table := range sealedTables() {
		samples, err := s.store.sealedByKey(ctx, table)
		if err != nil {
			return fmt.Errorf("reading which master keys are in use: %w", err)
		}
		for _, c := range samples {
			if s.deps.Keys == nil {
				return fmt.Errorf("there are credentials sealed with the master key %s, and no master_key_file", c.envelope.keyID)
			}
			if _, err := s.deps.Keys.open(c.id, c.envelope); err != nil {
				return fmt.Errorf("there are credentials sealed with the master key %s: %w", c.envelope.keyID, err)
			}
		}
	}
	return nil
}

// RotateKeys wraps every data key with the current master key and answers how
// many it changed. It may run while the service is used.
func (s *Service) RotateKeys(ctx context.Context) (n int, err error) {
	keys, err := s.keys()
	if err != nil {
		return 0, err
	}
	master, err := keys.current()
	if err != nil {
		return 0, err
	}
	for _, table := range sealedTables() {
		done, err := s.rotateIn(ctx, table, keys, master.id)
		if n += done; err != nil {
			return n, err
		}
	}
	return n, nil
}

func (s *Service) rotateIn(ctx context.Context, table string, keys *Keys, masterID string) (n int, err error) {
	for after := ""; ; {
		batch, err := s.store.sealedOtherwise(ctx, table, masterID, after)
		if err != nil || len(batch) == 0 {
			return n, err
		}
		for _, c := range batch {
			after = c.id
			next, err := keys.rewrap(c.id, c.envelope)
			if err != nil {
				return n, err
			}
			done, err := s.store.rewrap(ctx, table, c.id, c.envelope, next)
			if err != nil {
				return n, fmt.Errorf("writing the data key of %s: %w", c.id, err)
			}
			if done {
				n++
			}
		}
	}
}
