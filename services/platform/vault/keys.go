// Package vault seals secrets under the master keys of master_key_file, and signs with
// keys that follow from them. It owns no table: those with sealed rows are named to it
// by their owners, so that it finds which keys are in use and wraps their data keys
// anew.
package vault

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"

	"slipway.dev/services/internal/fault"
)

// Keys are the master keys of master_key_file: a key in base64 (32 bytes) a
// line, the newest first. The first wraps; each can still unwrap. The file is
// read again when it changes, so that replicas follow a rotation. Safe for
// concurrent use.
type Keys struct {
	path string

	mu   sync.Mutex
	read fs.FileInfo // the file, when it was read; nil wants it read
	ring []masterKey
}

type masterKey struct {
	id   string // gives nothing of the key away
	aead cipher.AEAD
	jwt  []byte // the key that signs
}

// Open reads the file. Where there is none, make says whether to make one
// with a new key. The error says what is wrong with the file.
func Open(path string, make bool) (*Keys, error) {
	k := &Keys{path: path}
	err := k.reload()
	if errors.Is(err, fs.ErrNotExist) && make {
		if err := writeKeys(path, newKey()); err != nil {
			return nil, err
		}
		err = k.reload()
	}
	if err != nil {
		return nil, err
	}
	return k, nil
}

func newKey() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.StdEncoding.EncodeToString(b[:])
}

// writeKeys replaces the file in one step.
func writeKeys(path string, lines ...string) error {
	next := path + ".new"
	if err := os.WriteFile(next, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		return fmt.Errorf("writing the master key: %w", err)
	}
	if err := os.Rename(next, path); err != nil {
		return fmt.Errorf("writing the master key: %w", err)
	}
	return nil
}

// reload reads the file if it changed. The caller holds mu, or is alone.
func (k *Keys) reload() error {
	info, err := os.Stat(k.path)
	if err != nil {
		return fmt.Errorf("master_key_file: %w", err)
	}
	if k.read != nil && same(k.read, info) {
		return nil
	}
	raw, err := os.ReadFile(k.path)
	if err != nil {
		return fmt.Errorf("master_key_file: %w", err)
	}
	ring, err := parseKeys(raw)
	if err != nil {
		return fmt.Errorf("master_key_file %s: %w", k.path, err)
	}
	k.ring, k.read = ring, info
	return nil
}

// same says whether a file is as it was. The clock of files is too coarse to tell alone:
// two rotations may have the same time.
func same(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

func parseKeys(raw []byte) ([]masterKey, error) {
	var ring []masterKey
	for n, line := range bytes.Split(raw, []byte("\n")) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		key, err := base64.StdEncoding.DecodeString(string(line))
		if err != nil || len(key) != 32 {
			return nil, fmt.Errorf("line %d is not base64 of 32 bytes (openssl rand -base64 32)", n+1)
		}
		aead, err := sealer(key)
		if err != nil {
			return nil, err
		}
		id := sha256.Sum256(append([]byte("slipway master key "), key...))
		jwt := hmac.New(sha256.New, key)
		jwt.Write([]byte("slipway JWT"))
		ring = append(ring, masterKey{hex.EncodeToString(id[:8]), aead, jwt.Sum(nil)})
	}
	if len(ring) == 0 {
		return nil, errors.New("it holds no key; a line is base64 of 32 bytes (openssl rand -base64 32)")
	}
	return ring, nil
}

// sealer is AES-GCM with a random nonce in front of what it seals.
func sealer(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// Check is fault.Unsupported for nil, which is no keys.
func (k *Keys) Check() error {
	if k == nil {
		return fault.Unsupported.Newf("Credentials and signing in are switched off: the platform has no master_key_file")
	}
	return nil
}

// CurrentID names the master key that seals and signs; it gives nothing of it away.
func (k *Keys) CurrentID() (string, error) {
	master, err := k.current()
	return master.id, err
}

// MAC signs a text with HMAC-SHA256, under a key that follows from a master key. An
// error says that there is none of that id.
func (k *Keys) MAC(id, text string) ([]byte, error) {
	master, err := k.find(id)
	if err != nil {
		return nil, err
	}
	h := hmac.New(sha256.New, master.jwt)
	h.Write([]byte(text))
	return h.Sum(nil), nil
}

// current is the key that wraps.
func (k *Keys) current() (masterKey, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.reload(); err != nil && len(k.ring) == 0 {
		return masterKey{}, err
	}
	return k.ring[0], nil
}

// find returns a key by its id.
func (k *Keys) find(id string) (masterKey, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	has := func(m masterKey) bool { return m.id == id }
	i := slices.IndexFunc(k.ring, has)
	if i < 0 {
		if err := k.reload(); err != nil {
			return masterKey{}, err
		}
		i = slices.IndexFunc(k.ring, has)
	}
	if i < 0 {
		return masterKey{}, fmt.Errorf("master_key_file %s does not hold the master key %s", k.path, id)
	}
	return k.ring[i], nil
}

// Add makes a new key the first of the file.
func (k *Keys) Add() error {
	raw, err := os.ReadFile(k.path)
	if err != nil {
		return fmt.Errorf("master_key_file: %w", err)
	}
	if err := writeKeys(k.path, newKey(), strings.TrimSpace(string(raw))); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.read = nil
	return k.reload()
}
