package layer

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
)

// dataMarker is the file that slipwayd puts into its data folder, so that this
// program knows one. Truth: app.dataMarker.
const dataMarker = ".slipway-data"

// isDataFolder says whether a directory is the data folder of a slipwayd, which
// holds the keys to everything: by its marker, or, where an older one made it, by
// what only such a folder holds together.
func isDataFolder(tree fs.FS, dir string) bool {
	has := func(name string) bool {
		_, err := fs.Stat(tree, path.Join(dir, name))
		return err == nil
	}
	return has(dataMarker) || has("slipway.db") && (has("master-key") || has("admin-token") || has("lock"))
}

// named is the most files that are warned of by name.
const named = 20

// caution tells the person what is not packed, and what perhaps should not be.
type caution struct {
	to      io.Writer
	secrets []string
}

// leftOut says that something is not packed, and why.
func (c *caution) leftOut(name, why string) {
	_, _ = fmt.Fprintf(c.to, "Left out %s: %s\n", name, why)
}

// packed looks at a file that is packed.
func (c *caution) packed(tree fs.FS, name string) {
	if looksSecret(tree, name) {
		c.secrets = append(c.secrets, name)
	}
}

// end warns of what looked like secrets.
func (c *caution) end(dir string) {
	if len(c.secrets) == 0 {
		return
	}
	shown, more := c.secrets, ""
	if len(shown) > named {
		more = fmt.Sprintf(" and %d more", len(shown)-named)
		shown = shown[:named]
	}
	_, _ = fmt.Fprintf(c.to, "Warning: these files of %s look like secrets, and are sent to the server: %s%s. Name them in a .dockerignore file, or move them, if an image must not hold them.\n",
		dir, strings.Join(shown, ", "), more)
}

// secretNames are files that hold secrets whatever is in them; one with a "/" is
// the end of a path.
func secretNames() []string {
	return []string{
		".env", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "id_ecdsa_sk", "id_ed25519_sk",
		".netrc", "_netrc", ".pgpass", ".git-credentials", ".pypirc", ".dockercfg", ".htpasswd",
		".docker/config.json", ".aws/credentials", ".azure/accessTokens.json", ".config/gcloud/application_default_credentials.json",
		".kube/config", "kubeconfig", "credentials", "credentials.json", "admin-token", "master-key",
	}
}

// harmless are endings of examples.
func harmless() []string { return []string{".example", ".sample", ".template", ".dist"} }

// looksSecret says whether a file's name, or the beginning of one that may be a
// key, is that of a secret.
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

// holdsPrivateKey reads the first 64 KiB: a PEM file may hold certificates alone.
func holdsPrivateKey(tree fs.FS, name string) bool {
	f, err := tree.Open(name)
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // it was only read
	head, err := io.ReadAll(io.LimitReader(f, 64<<10))
	return err == nil && bytes.Contains(head, []byte("PRIVATE KEY-----"))
}
