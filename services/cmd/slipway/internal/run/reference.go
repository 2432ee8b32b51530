package run

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/opencontainers/go-digest"

	"slipway.dev/services/mount/cache"
)

// maxReference is the maximum size of a reference in bytes.
const maxReference = 64 << 10

// A reference is the content of a file that names an image in a cache, in place of a Singularity image. Programs such as Nextflow pass only few
// variables on, so that it names the cache as well. Everything that it names is verified by digest or, for unpacked files, by owner, so that the file
// may be one of another user.
type reference struct {
	// Version is that of the format.
	Version int        `json:"slipwayImage"`
	Name    cache.Name `json:"image"`
	Cache   string     `json:"cache"`
	Lower   []string   `json:"lower,omitempty"`
}

const referenceVersion = 1

// newReference returns the reference to the image of a launch, without a token.
func newReference(l *launch) reference {
	return reference{Version: referenceVersion, Name: l.name.WithoutToken(), Cache: l.cache.Dir(), Lower: l.cache.Lower()}
}

// errNoImage is returned for a file that is no image.
var errNoImage = errors.New("the file is neither a Singularity image nor one that `pull` of this program wrote")

// parseReference parses the content of a file.
func parseReference(raw []byte) (reference, error) {
	var r reference
	if len(raw) >= maxReference || !bytes.HasPrefix(raw, []byte("{")) || json.Unmarshal(raw, &r) != nil || r.Version == 0 {
		return reference{}, errNoImage
	}
	if r.Version != referenceVersion {
		return reference{}, fmt.Errorf("the file was written by another version of this program: it has the format %d", r.Version)
	}
	if digest.Digest(r.Name.ImageDigest).Validate() != nil || r.Name.Environment != "" && digest.Digest(r.Name.Environment).Validate() != nil {
		return reference{}, errNoImage
	}
	for _, dir := range append([]string{r.Cache}, r.Lower...) {
		if !filepath.IsAbs(dir) {
			return reference{}, errNoImage
		}
	}
	return r, nil
}

// writeReference writes a file under a temporary name and renames it.
func writeReference(path string, r reference) error {
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".slipway-")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	defer func() { _ = os.Remove(f.Name()) }() // after an error
	_, err = f.Write(append(raw, '\n'))
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
