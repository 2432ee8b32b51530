package layer

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
)

// dataMarker is the file by which this program recognises slipwayd's data folder. It must
// equal app.dataMarker.
const dataMarker = ".slipway-data"

// isDataFolder reports whether a directory is the data folder of a slipwayd, which contains
// keys: by its marker or, if an older version created it, by its characteristic files.
func isDataFolder(tree fs.FS, dir string) bool {
	has := func(name string) bool {
		_, err := fs.Stat(tree, path.Join(dir, name))
		return err == nil
	}
	return has(dataMarker) || has("slipway.db") && (has("master-key") || has("admin-token") || has("lock"))
}

// named is the maximum number of files that a warning lists by name.
const named = 20

// caution tells the user which files are not packed, and which may be secrets.
type caution struct {
	to      io.Writer
	secrets []string
}

// printExcluded prints that a file is not packed, and why.
func (c *caution) printExcluded(name, why string) {
	_, _ = fmt.Fprintf(c.to, "Left out %s: %s\n", name, why)
}

// packed checks a file that is packed.
func (c *caution) packed(tree fs.FS, name string) {
	if looksSecret(tree, name) {
		c.secrets = append(c.secrets, name)
	}
}

// end warns about files that looked like secrets.
func (c *caution) end(dir string) {
	if len(c.secrets) == 0 {
		return
	}
	shown, more := c.secrets, ""
	if len(shown) > named {
		more = fmt.Sprintf(" and %d more", len(shown)-named)
		shown = shown[:named]
	}
	_, _ = fmt.Fprintf(c.to, "Warning: these files of %s look like secrets, and are sent to the server: %s%s. List them in a .dockerignore file, or move them, if an image must not contain them.\n",
		dir, strings.Join(shown, ", "), more)
}

// secretNames returns the names of files that look secret regardless of their content. A name
// with a "/" is the end of a path.
func secretNames() []string {
	return []string{
		".env", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "id_ecdsa_sk", "id_ed25519_sk",
		".netrc", "_netrc", ".pgpass", ".git-credentials", ".pypirc", ".dockercfg", ".htpasswd",
		".docker/config.json", ".aws/credentials", ".azure/accessTokens.json", ".config/gcloud/application_default_credentials.json",
		".kube/config", "kubeconfig", "credentials", "credentials.json", "admin-token", "master-key",
	}
}

// harmless returns the suffixes of example files, which contain no secrets.
func harmless() []string { return []string{".example", ".sample", ".template", ".dist"} }

// looksSecret reports whether a file's name, or the beginning of a possible key file, looks
// like a secret.
func looksSecret(tree fs.FS, name string) bool {
	base := strings.ToLower(path.Base(name))
	for _, end := range harmless() {
		if strings.HasSuffix(base, end) {
			return false
		}
	}
	for _, secret := range secretNames() {
		if secret = strings.ToLower(secret); base == secret || strings.HasSuffix("/"+strings.ToLower(name), "/"+secret) {
			return true
		}
	}
	switch path.Ext(base) {
	case ".p12", ".pfx", ".jks", ".keystore", ".kubeconfig":
		return true
	case ".pem", ".key":
		return holdsPrivateKey(tree, name)
	}
	return strings.HasPrefix(base, ".env.")
}

// holdsPrivateKey reads the first 64 KiB, since a PEM file may contain certificates only.
func holdsPrivateKey(tree fs.FS, name string) bool {
	f, err := tree.Open(name)
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // it was only read
	head, err := io.ReadAll(io.LimitReader(f, 64<<10))
	return err == nil && bytes.Contains(head, []byte("PRIVATE KEY-----"))
}
