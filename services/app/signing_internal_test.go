package app

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/services/internal/attest"
	"slipway.dev/services/internal/config"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/testkit"
)

// TestSigningKeys reads keys of files, and returns an error that names the setting for each file that
// cannot be used.
func TestSigningKeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name string, content []byte, mode os.FileMode) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	private, public := newKeyPair(t)
	_, other := newKeyPair(t)
	key, retired := write("key", private, 0o600), write("retired", bytes.Join([][]byte{other, public}, nil), 0o644)
	signing, err := (&env{cfg: config.Config{SigningKeyFile: key, SigningRetiredKeys: []string{retired, retired}}}).signing()
	if err != nil || signing.Signer == nil || len(signing.Retired) != 4 {
		t.Fatalf("%+v %v", signing, err)
	}
	if again, err := attest.PublicPEM(signing.Signer.Public()); err != nil || !bytes.Equal(again, public) {
		t.Errorf("the public key is %s: %v", again, err)
	}
	for name, c := range map[string]struct {
		cfg  config.Config
		want string
	}{
		"no file":           {config.Config{SigningKeyFile: filepath.Join(dir, "absent")}, "signing_key_file: open"},
		"readable by all":   {config.Config{SigningKeyFile: write("open", private, 0o644)}, "chmod 600"},
		"a public key":      {config.Config{SigningKeyFile: write("public", public, 0o600)}, "openssl pkcs8"},
		"too large":         {config.Config{SigningKeyFile: write("large", bytes.Repeat(private, limits.SigningKeyFile/len(private)+1), 0o600)}, "is larger than"},
		"retired: no file":  {config.Config{SigningKeyFile: key, SigningRetiredKeys: []string{filepath.Join(dir, "absent")}}, "signing_retired_keys: open"},
		"retired: private":  {config.Config{SigningKeyFile: key, SigningRetiredKeys: []string{key}}, "signing_retired_keys: " + key},
		"too many keys":     {config.Config{SigningKeyFile: key, SigningRetiredKeys: []string{write("many", bytes.Repeat(public, limits.SigningKeys), 0o644)}}, "the limit is 16"},
		"retired keys only": {config.Config{SigningRetiredKeys: []string{retired}}, "requires signing_key_file"},
	} {
		if _, err := (&env{cfg: c.cfg}).signing(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if signing, err := (&env{}).signing(); err != nil || signing.Signer != nil {
		t.Errorf("one role without a key: %+v %v", signing, err)
	}
}

// TestCertifiedSigning reads the files of certificates, and returns an error that names the setting for
// each file that cannot be used.
func TestCertifiedSigning(t *testing.T) {
	t.Parallel()
	a := testkit.NewAuthority(t)
	dir := t.TempDir()
	write := func(name, content string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	_, public := newKeyPair(t)
	retired := write("retired", string(public))
	token, root, other := write("token", "e30.eyJpc3MiOiJpIiwic3ViIjoicyJ9.AAAA"), write("root", string(a.Root)), write("other", "x")
	signing, err := (&env{cfg: config.Config{SigningFulcio: a.URL, SigningIdentityToken: token, SigningTrustedRoot: root, SigningRetiredKeys: []string{retired}}}).signing()
	if err != nil || !signing.Signer.IsCertified() || len(signing.Retired) != 1 || !bytes.Equal(signing.TrustedRoot, a.Root) {
		t.Fatalf("%+v %v", signing, err)
	}
	for want, cfg := range map[string]config.Config{
		"signing_identity_token_file: " + other: {SigningIdentityToken: other},
		"signing_trusted_root: " + other:        {SigningIdentityToken: token, SigningTrustedRoot: other},
		"signing_trusted_root: open":            {SigningIdentityToken: token, SigningTrustedRoot: filepath.Join(dir, "absent")},
		"signing_retired_keys: " + other:        {SigningIdentityToken: token, SigningRetiredKeys: []string{other}},
	} {
		cfg.SigningFulcio = a.URL
		if _, err := (&env{cfg: cfg}).signing(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// newKeyPair returns a new private key and its public key as PEM.
func newKeyPair(t *testing.T) (private, public []byte) {
	t.Helper()
	private, err := attest.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	key, err := attest.ParseKey(private)
	if err != nil {
		t.Fatal(err)
	}
	if public, err = attest.PublicPEM(&key.PublicKey); err != nil {
		t.Fatal(err)
	}
	return private, public
}
