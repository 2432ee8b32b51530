package conda

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// LayerVersion is that of the way layers of packages are written. With another one, no
// layer that is known stays so: it goes up when a byte of a layer changes, also by a
// library.
const LayerVersion = 1

// Gzip is how layers are compressed where a request does not say.
const Gzip = "gzip"

// Prefix is where environments are in images.
const Prefix = "/opt/conda"

// LayerKey names the layer that a package becomes, before it is made.
type LayerKey string

// LayerKey names the layer of a package in an environment. The record is in it because it
// is in the layer, as conda-meta: a channel that corrects what it says of an artifact gives
// another layer. Compression is as layers have it, e.g. "gzip"; scope is who the layer is
// for, "" for everybody.
func (r Record) LayerKey(python Python, compression, scope string) (LayerKey, error) {
	record, err := json.Marshal(r)
	if err != nil {
		return "", err
	}
	if !r.ForAnyPython() {
		python = Python{}
	}
	return HashLayer("package", fmt.Sprint(LayerVersion), compression, Prefix, python.Minor, python.SitePackages, string(record), scope), nil
}

// ForAnyPython says whether where the files of a package go may depend on the Python
// beside it.
func (r Record) ForAnyPython() bool {
	return r.NoArch == "python" || r.NoArch == "" && r.Subdir == "noarch"
}

// At names the layer among those of several repositories, each "<host>/<repository>".
func (k LayerKey) At(repository string) string {
	return string(HashLayer("repository", repository))[:32] + "." + string(k)
}

// HashLayer names a layer by all that decides it.
func HashLayer(facts ...string) LayerKey {
	h := sha256.New()
	for _, f := range facts {
		_, _ = fmt.Fprintf(h, "%d:%s\n", len(f), f) // a hash takes everything
	}
	return LayerKey(hex.EncodeToString(h.Sum(nil)))
}
