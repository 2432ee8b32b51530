package bundle

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/cmd/slipway/internal/file"
	"slipway.dev/services/internal/limits"
)

// recordType is the media type of the record of a bundle.
const recordType = "slipway.dev/bundle/v1+json"

// A record states what a bundle contains and what it was made from.
type record struct {
	Created string `json:"created"` // RFC 3339
	// Requests are the containers that were requested, in the order of the inputs.
	Requests requestList `json:"requests"`
	// Names are the names of images with their digests.
	Names nameMap `json:"names"`
	// Locks are the locks of packages, as pixi.lock, by their digests.
	Locks lockMap `json:"locks"`
	// Digests are those of all blobs, also of the ones that were left out, and Have are these.
	Digests digestList `json:"digests"`
	Have    digestList `json:"have,omitempty"`

	previous *record // that of the earlier run with the same bundle; nil for none
}

// keepTime sets the time to that of the earlier run if nothing else has changed.
func (r *record) keepTime() {
	if r.previous == nil {
		return
	}
	same := *r
	same.Created = r.previous.Created
	now, bad := json.Marshal(same)
	before, worse := json.Marshal(r.previous)
	if bad == nil && worse == nil && bytes.Equal(now, before) {
		r.Created = same.Created
	}
}

// The lists of a record are decoded with bounds: a list of short values would need many times its size in
// memory.
type (
	requestList []request
	nameMap     map[string]digest.Digest
	lockMap     map[string]string
	digestList  []digest.Digest
)

// UnmarshalJSON decodes requests.
func (l *requestList) UnmarshalJSON(raw []byte) (err error) {
	*l, err = file.List[request](raw, limits.BundleNames)
	return err
}

// UnmarshalJSON decodes names.
func (l *nameMap) UnmarshalJSON(raw []byte) (err error) {
	*l, err = file.Map[digest.Digest](raw, limits.BundleNames)
	return err
}

// UnmarshalJSON decodes locks of packages.
func (l *lockMap) UnmarshalJSON(raw []byte) (err error) {
	*l, err = file.Map[string](raw, limits.BundleNames)
	return err
}

// UnmarshalJSON decodes digests.
func (l *digestList) UnmarshalJSON(raw []byte) (err error) {
	*l, err = file.List[digest.Digest](raw, limits.BundleDigests)
	return err
}

// A request is the record of one container.
type request struct {
	// Name is what the user calls it: the path of a file, or the name of a process of Nextflow
	// if Process is set.
	Name    string `json:"name"`
	Process bool   `json:"process,omitempty"`
	// Request is the digest of the request as in slipway.lock.
	Request string `json:"request,omitempty"`
	// Image is a key of Names, and Digest its digest.
	Image  string        `json:"image"`
	Digest digest.Digest `json:"digest"`
	// Lock is a key of Locks.
	Lock string `json:"lock,omitempty"`
	// Format is formatSif for a Singularity image; "" for other images.
	Format string `json:"format,omitempty"`
	// Of is the digest of the image that a Singularity image was made of; "" if it is not known.
	Of digest.Digest `json:"of,omitempty"`
}

// formatSif is the format of a Singularity image.
const formatSif = "sif"

// parseRecord parses a record and checks its bounds.
func parseRecord(raw []byte) (record, error) {
	var r record
	if err := json.Unmarshal(raw, &r); err != nil {
		return record{}, fmt.Errorf("the record of the bundle is not valid: %w", err)
	}
	return r, r.check()
}

// check checks the bounds and the digests of a record.
func (r record) check() error {
	if len(r.Requests) > limits.BundleNames || len(r.Names) > limits.BundleNames || len(r.Locks) > limits.BundleNames {
		return fmt.Errorf("the record of the bundle has more than %d names", limits.BundleNames)
	}
	if len(r.Digests) > limits.BundleDigests || len(r.Have) > limits.BundleDigests {
		return fmt.Errorf("the record of the bundle has more than %d digests", limits.BundleDigests)
	}
	for _, list := range [][]digest.Digest{r.Digests, r.Have} {
		for _, d := range list {
			if err := checkDigest(d); err != nil {
				return fmt.Errorf("the record of the bundle: %w", err)
			}
		}
	}
	for _, d := range r.Names {
		if err := checkDigest(d); err != nil {
			return fmt.Errorf("the record of the bundle: %w", err)
		}
	}
	for _, one := range r.Requests {
		if one.Digest == "" {
			continue // it is not needed
		}
		if err := checkDigest(one.Digest); err != nil {
			return fmt.Errorf("the record of the bundle: %w", err)
		}
	}
	return nil
}

// readRecord reads the record whose manifest a layout has.
func readRecord(l *layout, d ocispec.Descriptor) (record, error) {
	r, _, err := readSized(l, d)
	return r, err
}

// readSized reads a record and returns its size in bytes, too.
func readSized(l *layout, d ocispec.Descriptor) (record, int64, error) {
	raw, err := l.document(d, limits.Document)
	if err != nil {
		return record{}, 0, err
	}
	m, err := parseManifest(d, raw)
	if err != nil {
		return record{}, 0, err
	}
	if m.config == nil || m.config.MediaType != recordType {
		return record{}, 0, fmt.Errorf("%s is not a record of a bundle", d.Digest)
	}
	if raw, err = l.document(*m.config, limits.BundleRecord); err != nil {
		return record{}, 0, err
	}
	r, err := parseRecord(raw)
	return r, int64(len(raw)), err
}

// write stores the record and returns the entry of the index for it.
func (r record) write(l *layout) (ocispec.Descriptor, error) {
	if err := r.check(); err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("%w; split the inputs", err)
	}
	raw, err := json.MarshalIndent(r, "", "  ")
	if err == nil && len(raw) > limits.BundleRecord {
		err = fmt.Errorf("the record of the bundle is larger than %d bytes; split the inputs", limits.BundleRecord)
	}
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	config, err := l.putBytes(recordType, raw)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	empty, err := l.putBytes(ocispec.MediaTypeEmptyJSON, ocispec.DescriptorEmptyJSON.Data)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	doc := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: recordType, Config: config, Layers: []ocispec.Descriptor{empty}}
	if raw, err = json.Marshal(doc); err != nil {
		return ocispec.Descriptor{}, err
	}
	d, err := l.putBytes(ocispec.MediaTypeImageManifest, raw)
	d.ArtifactType = recordType
	return d, err
}
