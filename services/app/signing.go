package app

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"slipway.dev/services/container"
	"slipway.dev/services/internal/attest"
	"slipway.dev/services/internal/attest/keyless"
	"slipway.dev/services/internal/attest/sshagent"
	"slipway.dev/services/internal/attest/trust"
	"slipway.dev/services/internal/config"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/upstream"
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
	if e.cfg.SigningFulcio != "" {
		return e.certifiedSigning()
	}
	out := container.Signing{}
	if e.cfg.SigningKeyFile == "" {
		if err := e.checkNoKeyFile(); err != nil || !e.isWhole() {
			return out, err
		}
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
	if info, err := os.Stat(at); e.cfg.SigningAgent == "" && err == nil && info.Mode().Perm()&0o007 != 0 {
		return out, fmt.Errorf("signing_key_file: all users of this machine can read %s, and its mode is %s: run chmod 600", at, info.Mode())
	}
	raw, err := readKeys(at)
	if err != nil {
		return out, fmt.Errorf("signing_key_file: %w", err)
	}
	key, err := e.signingKey(raw)
	if err != nil {
		return out, fmt.Errorf("signing_key_file: %s: %w", at, err)
	}
	if out.Signer, err = attest.NewSigner(key); err != nil {
		return out, fmt.Errorf("signing_key_file: %s: %w", at, err)
	}
	if out.Retired, err = e.retiredKeys(1); err != nil {
		return out, err
	}
	if e.cfg.SignSIF {
		if !out.Signer.IsDeterministic() {
			return out, errors.New("sign_sif requires a key file: a key of signing_agent signs the same Singularity image differently each time")
		}
		out.SifKey = attest.KeyHint(out.Signer.Public())
	}
	return out, nil
}

// retiredKeys reads the keys of signing_retired_keys. The argument current is the number of other keys.
func (e *env) retiredKeys(current int) (out []*ecdsa.PublicKey, err error) {
	for _, path := range e.cfg.SigningRetiredKeys {
		raw, err := readKeys(path)
		if err != nil {
			return nil, fmt.Errorf("signing_retired_keys: %w", err)
		}
		keys, err := attest.ParsePublicKeys(raw)
		if err != nil {
			return nil, fmt.Errorf("signing_retired_keys: %s: %w", path, err)
		}
		out = append(out, keys...)
	}
	if n := len(out) + current; n > limits.SigningKeys {
		return nil, fmt.Errorf("signing_retired_keys: with the current key there are %d keys, and the limit is %d", n, limits.SigningKeys)
	}
	return out, nil
}

// certifiedSigning returns a signer with certificates of signing_fulcio. It sends no request.
func (e *env) certifiedSigning() (out container.Signing, err error) {
	if out.Retired, err = e.retiredKeys(0); err != nil {
		return out, err
	}
	if err := keyless.CheckToken(e.cfg.SigningIdentityToken); err != nil {
		return out, fmt.Errorf("signing_identity_token_file: %s: %w", e.cfg.SigningIdentityToken, err)
	}
	o := keyless.Options{
		Fulcio: e.cfg.SigningFulcio, Timestamp: e.cfg.SigningTimestamp, TokenFile: e.cfg.SigningIdentityToken,
		Transport: upstream.NewTransport(e.net.egress), Now: time.Now,
	}
	path := e.cfg.SigningTrustedRoot
	if out.TrustedRoot, err = readBounded(path, limits.TrustedRoot); err != nil {
		return out, fmt.Errorf("signing_trusted_root: %w", err)
	}
	if o.Root, err = trust.Parse(out.TrustedRoot); err != nil {
		return out, fmt.Errorf("signing_trusted_root: %s: %w", path, err)
	}
	out.Signer = attest.NewCertifiedSigner(keyless.New(o))
	return out, nil
}

// checkNoKeyFile returns an error if a setting requires signing_key_file, which is not set.
func (e *env) checkNoKeyFile() error {
	switch {
	case e.cfg.SigningAgent != "":
		return errors.New("signing_agent requires signing_key_file, the public key")
	case len(e.cfg.SigningRetiredKeys) > 0 && !e.isWhole():
		return errors.New("signing_retired_keys requires signing_key_file")
	case e.cfg.SignSIF && !e.isWhole():
		return errors.New("sign_sif requires signing_key_file")
	}
	return nil
}

// signingKey returns the private key of a key file or, with signing_agent, the agent's key.
func (e *env) signingKey(raw []byte) (crypto.Signer, error) {
	if e.cfg.SigningAgent == "" {
		return attest.ParseKey(raw)
	}
	keys, err := attest.ParsePublicKeys(raw)
	if err != nil {
		return nil, err
	}
	if len(keys) != 1 {
		return nil, errors.New("it has several public keys: signing_agent signs with one, and earlier ones belong in signing_retired_keys")
	}
	key, err := sshagent.New(e.cfg.SigningAgent, keys[0])
	if err != nil {
		return nil, err
	}
	return key, key.Wait(context.Background())
}

// readKeys reads a file with keys.
func readKeys(path string) ([]byte, error) { return readBounded(path, limits.SigningKeyFile) }

// readBounded reads a small file.
func readBounded(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(raw)) > limit {
		err = fmt.Errorf("%s is larger than %d bytes", path, limit)
	}
	return raw, err
}
