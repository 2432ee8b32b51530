package app

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"slipway.dev/services/container"
	"slipway.dev/services/internal/attest"
	"slipway.dev/services/internal/config"
	"slipway.dev/services/internal/limits"
)

// SigningKeyFile returns the path of the key that signs images.
func SigningKeyFile(c config.Config) string {
	if c.SigningKeyFile != "" {
		return c.SigningKeyFile
	}
	return filepath.Join(c.DataDir, "signing-key")
}

// signing reads the keys that sign images. A process that plays all roles creates one in data_dir
// at its first start; any other process signs only if signing_key_file is set.
func (e *env) signing() (container.Signing, error) {
	out := container.Signing{}
	if e.cfg.SigningKeyFile == "" && !e.isWhole() {
		if len(e.cfg.SigningRetiredKeys) > 0 {
			return out, errors.New("signing_retired_keys requires signing_key_file")
		}
		return out, nil
	}
	at := SigningKeyFile(e.cfg)
	if e.cfg.SigningKeyFile == "" {
		key, err := attest.NewKey()
		if err == nil {
			err = createSecret(at, string(key))
		}
		if err != nil {
			return out, fmt.Errorf("creating the key that signs images: %w", err)
		}
	}
	if info, err := os.Stat(at); err == nil && info.Mode().Perm()&0o007 != 0 {
		return out, fmt.Errorf("signing_key_file: all users of this machine can read %s, and its mode is %s: run chmod 600", at, info.Mode())
	}
	raw, err := readKeys(at)
	if err != nil {
		return out, fmt.Errorf("signing_key_file: %w", err)
	}
	key, err := attest.ParseKey(raw)
	if err != nil {
		return out, fmt.Errorf("signing_key_file: %s: %w", at, err)
	}
	if out.Signer, err = attest.NewSigner(key); err != nil {
		return out, fmt.Errorf("signing_key_file: %s: %w", at, err)
	}
	for _, path := range e.cfg.SigningRetiredKeys {
		raw, err := readKeys(path)
		if err != nil {
			return out, fmt.Errorf("signing_retired_keys: %w", err)
		}
		keys, err := attest.ParsePublicKeys(raw)
		if err != nil {
			return out, fmt.Errorf("signing_retired_keys: %s: %w", path, err)
		}
		out.Retired = append(out.Retired, keys...)
	}
	if n := len(out.Retired) + 1; n > limits.SigningKeys {
		return out, fmt.Errorf("signing_retired_keys: with the current key there are %d keys, and the limit is %d", n, limits.SigningKeys)
	}
	return out, nil
}

// readKeys reads a file with keys.
func readKeys(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, limits.SigningKeyFile+1))
	if err == nil && len(raw) > limits.SigningKeyFile {
		err = fmt.Errorf("%s is larger than %d bytes", path, limits.SigningKeyFile)
	}
	return raw, err
}
