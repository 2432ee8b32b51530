package layering

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/chunked"
	"slipway.dev/services/internal/limits"
)

// writeRecord encodes a layer's Package for other workers as gzipped JSON, of at most
// limits.LayerRecord bytes.
func writeRecord(p Package) ([]byte, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if err := errors.Join(json.NewEncoder(z).Encode(p), z.Close()); err != nil {
		return nil, err
	}
	if b.Len() > limits.LayerRecord {
		return nil, fmt.Errorf("the layer's record has %d bytes; the limit is %d", b.Len(), limits.LayerRecord)
	}
	return b.Bytes(), nil
}

// readRecord decodes another worker's record of a package's layer, or of a blob with another
// media type.
func readRecord(raw []byte, rec spec.Record, mediaType string) (p Package, err error) {
	if len(raw) > limits.LayerRecord {
		return p, errors.New("the record is too long")
	}
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return p, err
	}
	text, err := io.ReadAll(io.LimitReader(z, limits.LayerRecordUnpacked+1))
	if err == nil && len(text) > limits.LayerRecordUnpacked {
		err = errors.New("the record is too long")
	}
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	return p, errors.Join(err, p.validate(rec, mediaType))
}

// validate validates a record of another worker.
func (p Package) validate(rec spec.Record, mediaType string) error {
	if p.MediaType != mediaType || p.By != rec.History() || p.Size <= 0 || p.Installed < 0 {
		return errors.New("the record is not that of the package's layer")
	}
	for _, d := range []digest.Digest{p.Digest, p.DiffID} {
		if err := d.Validate(); err != nil || d.Algorithm() != digest.SHA256 {
			return errors.New("the record has a malformed digest")
		}
	}
	if err := checkAnnotations(p.Annotations); err != nil {
		return err
	}
	paths := slices.Concat(p.Paths, slices.Collect(maps.Keys(p.HardLinks)), slices.Collect(maps.Values(p.HardLinks)))
	for _, name := range paths {
		if len(name) > limits.ArtifactPath || !fs.ValidPath(strings.TrimSuffix(name, "/")) {
			return errors.New("the record has a path outside of the prefix")
		}
	}
	if len(p.LinkScripts) > limits.ArtifactScripts || len(p.Activation) > limits.ArtifactScripts {
		return errors.New("the record has too many scripts")
	}
	if p.About != p.About.Printable() {
		return errors.New("the record has a summary, home or licence that is too long or not printable")
	}
	return nil
}

// checkAnnotations validates the annotations of another worker's layer, which become a part of the
// image: those of tables of contents.
func checkAnnotations(notes map[string]string) error {
	for name, value := range notes {
		known := map[string]*regexp.Regexp{
			chunked.EstargzTOC: tocDigest, chunked.EstargzSize: tocPosition, chunked.ZstdTOC: tocDigest, chunked.ZstdPosition: tocPosition, chunked.ZstdTarSplit: tocPosition,
		}[name]
		if known == nil || !known.MatchString(value) {
			return errors.New("the record has an annotation that layers do not have")
		}
	}
	return nil
}

// The values of the annotations of layers: a digest, or numbers.
var (
	tocDigest   = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	tocPosition = regexp.MustCompile(`^[0-9]{1,19}(:[0-9]{1,19}){0,3}$`)
)
