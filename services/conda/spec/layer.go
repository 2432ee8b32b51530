package spec

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
)

// LayerVersion is the version of the code that writes package layers. Increase it whenever
// a byte of a layer changes, also because of a library: it invalidates all existing layers.
const LayerVersion = 2

// WheelVersion is the version of the code that writes layers of wheels. Increase it like
// LayerVersion.
const WheelVersion = 1

// Gzip is the default compression of layers.
const Gzip = "gzip"

// Prefix is the path of environments in images.
const Prefix = "/opt/conda"

// A LayerKey identifies the layer of a package before the layer is built.
type LayerKey string

// LayerKey returns the key of the package's layer in an environment. The key covers the whole
// record, since the layer contains it in conda-meta: corrected metadata of a channel results
// in another layer. compression is that of the layer, e.g. "gzip". scope is the owner of the
// layer, "" for a layer that all users share.
func (r Record) LayerKey(python Python, compression, scope string) (LayerKey, error) {
	if r.IsWheel() {
		// The layer contains no other fields of the record than its name and version.
		return HashLayer("wheel", fmt.Sprint(WheelVersion), compression, Prefix, python.Minor, fmt.Sprint(python.FreeThreaded), python.SitePackages, r.FileName, r.Name, r.Version, r.SHA256, scope), nil
	}
	r.Channel = r.ChannelURL() // as in conda-meta, so that a lock and a solve share layers
	record, err := json.Marshal(r)
	if err != nil {
		return "", err
	}
	if !r.ForAnyPython() {
		python = Python{}
	}
	return HashLayer("package", fmt.Sprint(LayerVersion), compression, Prefix, python.Minor, python.SitePackages, string(record), scope), nil
}

// ChannelURL returns the address of the record's channel, as conda-meta has it, or the
// channel's name if the artifact's address is not below the channel's.
func (r Record) ChannelURL() string {
	if base, ok := strings.CutSuffix(r.URL, "/"+r.Subdir+"/"+r.FileName); ok && r.Subdir != "" && !r.IsWheel() {
		return base
	}
	return r.Channel
}

// ForAnyPython reports whether the paths of the package's files may depend on the Python
// version of the environment.
func (r Record) ForAnyPython() bool {
	return r.NoArch == "python" || r.NoArch == "" && r.Subdir == "noarch" || r.IsWheel()
}

// At returns a key that is unique among several repositories, each "<host>/<repository>".
func (k LayerKey) At(repository string) string {
	return string(HashLayer("repository", repository))[:32] + "." + string(k)
}

// HashLayer returns the key for a layer that the given facts determine.
func HashLayer(facts ...string) LayerKey {
	h := sha256.New()
	for _, f := range facts {
		_, _ = fmt.Fprintf(h, "%d:%s\n", len(f), f) // writing to a hash does not fail
	}
	return LayerKey(hex.EncodeToString(h.Sum(nil)))
}
