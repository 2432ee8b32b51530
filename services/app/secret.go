package app

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"slipway.dev/services/internal/config"
)

// roleSecret returns the secret of rpc_secret_file or, without that setting, the one in
// data_dir, which the first role that starts there creates. A process that can read either
// file can act as any role.
func roleSecret(c config.Config) (string, error) {
	path := c.RPCSecretFile
	if path == "" {
		path = filepath.Join(c.DataDir, "rpc-secret")
		if err := createSecret(path, rand.Text()+"\n"); err != nil {
			return "", fmt.Errorf("the secret with which roles authenticate: %w; set rpc_cert_file or rpc_secret_file", err)
		}
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("the secret with which roles authenticate: %w", err)
	}
	secret := strings.TrimSpace(string(raw))
	if len(secret) < 16 {
		return "", fmt.Errorf("%s holds fewer than 16 characters; write a longer secret into it, the same for all roles", path)
	}
	return secret, nil
}

// createSecret creates a file with a secret, unless it exists. It creates the file
// atomically, since several roles may start concurrently. It returns an error if other users
// can access the file, or if it is not a regular file.
func createSecret(path, secret string) error {
	next, err := os.CreateTemp(filepath.Dir(path), ".secret-") // its mode is 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(next.Name()) }() // a leftover is harmless
	_, err = next.WriteString(secret)
	if err := errors.Join(err, next.Sync(), next.Close()); err != nil {
		return err
	}
	if err := os.Link(next.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if info.Mode() != info.Mode().Perm() || info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s must be a file that its owner alone can read, and its mode is %s: delete it, and restart all roles with this data_dir", path, info.Mode())
	}
	return nil
}
