package spec

import "fmt"

// An image of packages states its lock in LockLabel and LockFile, and the content of its
// layers in the history of its configuration.
const (
	// LockLabel is the label, and the annotation of the manifest, with the digest of LockFile.
	LockLabel = "dev.slipway.conda.lock"
	// LockFile is the path of the lock in the layer of the environment, without a leading
	// slash: the records in topological order, as a JSON list. Conda and mamba only read
	// *.json in its folder.
	LockFile = "opt/conda/conda-meta/slipway.lock"
	// EnvironmentHistory is the history entry of the layer of the environment, which is above
	// the layers of its packages.
	EnvironmentHistory = "conda: history"
)

// History returns the history entry of a package's layer.
func (r Record) History() string {
	if r.IsWheel() {
		return "pypi: " + r.Name + " " + r.Version
	}
	return "conda: " + r.Name + " " + r.Version + " " + r.Build
}

// GroupHistory returns the history entry of a layer of n packages.
func GroupHistory(n int) string { return fmt.Sprintf("conda: %d small packages", n) }
