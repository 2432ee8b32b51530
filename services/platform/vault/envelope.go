package vault

import (
	"crypto/cipher"
	"crypto/rand"
	"fmt"
)

// An Envelope is an encrypted secret: AES-256-GCM under a data key of its own, which the
// master key with KeyID wraps.
type Envelope struct {
	Sealed, DataKey []byte
	KeyID           string
}

// Seal encrypts the secret of the record with an id. The id is authenticated data, so that
// the envelope cannot be moved to another record.
func (k *Keys) Seal(id string, secret []byte) (Envelope, error) {
	master, err := k.current()
	if err != nil {
		return Envelope{}, err
	}
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails
	data, err := sealer(key[:])
	if err != nil {
		return Envelope{}, err
	}
	return Envelope{Sealed: encrypt(data, id, secret), DataKey: encrypt(master.aead, id, key[:]), KeyID: master.id}, nil
}

// Open decrypts the envelope of the record with an id.
func (k *Keys) Open(id string, e Envelope) ([]byte, error) {
	key, err := k.unwrap(id, e)
	if err != nil {
		return nil, err
	}
	data, err := sealer(key)
	if err != nil {
		return nil, err
	}
	return decrypt(data, id, e.Sealed)
}

func (k *Keys) unwrap(id string, e Envelope) ([]byte, error) {
	master, err := k.find(e.KeyID)
	if err != nil {
		return nil, err
	}
	return decrypt(master.aead, id, e.DataKey)
}

// Rewrap returns the envelope with its data key wrapped by the current master key.
func (k *Keys) Rewrap(id string, e Envelope) (Envelope, error) {
	key, err := k.unwrap(id, e)
	if err != nil {
		return Envelope{}, err
	}
	master, err := k.current()
	if err != nil {
		return Envelope{}, err
	}
	return Envelope{Sealed: e.Sealed, DataKey: encrypt(master.aead, id, key), KeyID: master.id}, nil
}

func encrypt(a cipher.AEAD, id string, plain []byte) []byte {
	return a.Seal(nil, nil, plain, []byte(id))
}

func decrypt(a cipher.AEAD, id string, sealed []byte) ([]byte, error) {
	plain, err := a.Open(nil, nil, sealed, []byte(id))
	if err != nil {
		return nil, fmt.Errorf("opening the secret of %s: %w", id, err)
	}
	return plain, nil
}
