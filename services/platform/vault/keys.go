// Package vault encrypts secrets under the master keys of master_key_file, and signs with
// keys derived from them. It owns no table. Other packages store the envelopes and list their
// tables in Tables, which checks that each envelope can be opened and rotates master keys.
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
	"syscall"

	"slipway.dev/services/internal/fault"
)

// Keys holds the master keys of master_key_file: one key per line, 32 bytes in base64, the
// newest first. The first key wraps data keys; every key can unwrap them. The file is read
// again when it changes, so that replicas follow a rotation. A nil *Keys means that the
// platform has no master keys; only Check may be called on it. Safe for concurrent use.
type Keys struct {
	path string

	mu   sync.Mutex
	read fs.FileInfo // describes the file as it was last read; nil forces a read
	ring []masterKey // never empty after Open
}

type masterKey struct {
	id   string // derived from a hash; reveals nothing about the key
	aead cipher.AEAD
	jwt  []byte // the derived key that signs
}

// Open reads the master keys at path. If the file does not exist and create is set, Open
// creates it with a new key.
func Open(path string, create bool) (*Keys, error) {
	k := &Keys{path: path}
	err := k.reload()
	if errors.Is(err, fs.ErrNotExist) && create {
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

// writeKeys replaces the file atomically. The new file has the owner of the old one, so that the
// server can read it after a command that root runs.
func writeKeys(path string, lines ...string) error {
	next := path + ".new"
	if err := os.WriteFile(next, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		return fmt.Errorf("writing the master key: %w", err)
	}
	if old, err := os.Stat(path); err == nil {
		if owner, ok := old.Sys().(*syscall.Stat_t); ok {
			if err := os.Chown(next, int(owner.Uid), int(owner.Gid)); err != nil {
				return fmt.Errorf("writing the master key: %w", err)
			}
		}
	}
	if err := os.Rename(next, path); err != nil {
		return fmt.Errorf("writing the master key: %w", err)
	}
	return nil
}

// reload reads the file if it has changed. The caller must hold mu, unless k is not shared
// yet.
func (k *Keys) reload() error {
	info, err := os.Stat(k.path)
	if err != nil {
		return fmt.Errorf("master_key_file: %w", err)
	}
	if k.read != nil && unchanged(k.read, info) {
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

// unchanged reports whether a and b describe the same file content. The modification time
// alone is too coarse: two rotations may share it.
func unchanged(a, b fs.FileInfo) bool {
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
			return nil, fmt.Errorf("line %d is not 32 bytes in base64; create a key with `openssl rand -base64 32`", n+1)
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
		return nil, errors.New("it holds no key; add a line with 32 bytes in base64 (openssl rand -base64 32)")
	}
	return ring, nil
}

// sealer returns AES-GCM that prepends a random nonce to each ciphertext.
func sealer(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// Check returns fault.Unsupported if k is nil.
func (k *Keys) Check() error {
	if k == nil {
		return fault.Unsupported.Newf("Credentials and sign-in are disabled: the platform has no master_key_file")
	}
	return nil
}

// CurrentID returns the id of the master key that wraps and signs. The id reveals nothing
// about the key.
func (k *Keys) CurrentID() (string, error) {
	master, err := k.current()
	return master.id, err
}

// MAC returns the HMAC-SHA256 of text under a key derived from the master key with an id. It
// returns an error if there is no such master key.
func (k *Keys) MAC(id, text string) ([]byte, error) {
	master, err := k.find(id)
	if err != nil {
		return nil, err
	}
	h := hmac.New(sha256.New, master.jwt)
	h.Write([]byte(text))
	return h.Sum(nil), nil
}

// current returns the key that wraps and signs: the first of the file, or the last one read
// if the file has become unreadable.
func (k *Keys) current() (masterKey, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.reload(); err != nil && len(k.ring) == 0 {
		return masterKey{}, err
	}
	return k.ring[0], nil
}

// find returns the key with an id. It reads the file again if the key is unknown, since
// another replica may have added it.
func (k *Keys) find(id string) (masterKey, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	matches := func(m masterKey) bool { return m.id == id }
	i := slices.IndexFunc(k.ring, matches)
	if i < 0 {
		if err := k.reload(); err != nil {
			return masterKey{}, err
		}
		i = slices.IndexFunc(k.ring, matches)
	}
	if i < 0 {
		return masterKey{}, fmt.Errorf("master_key_file %s does not hold the master key %s", k.path, id)
	}
	return k.ring[i], nil
}

// Add inserts a new key at the beginning of the file.
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
