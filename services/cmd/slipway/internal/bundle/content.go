package bundle

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/limits"
)

// A content is what one or more folders of bundles contain: the manifests that their indexes reach,
// and the blobs that these refer to. It is safe for concurrent use, and the caller closes it.
type content struct {
	folders []*layout
	// images are the named images; of a name in several folders, that of the last.
	images []image
	// manifests are all manifests, and referrers those with a subject, by its digest.
	manifests map[digest.Digest]manifest
	referrers map[digest.Digest][]manifest
	// blobs are the configs and layers.
	blobs map[digest.Digest]ocispec.Descriptor
	// records are the records of the bundles, and leftOut the blobs that were left out of them.
	records []record
	leftOut map[digest.Digest]bool

	documents int64 // the bytes of manifests so far
}

// An image is a named image of a bundle.
type image struct {
	name
	root ocispec.Descriptor
}

// openContent reads all manifests of bundles, verifying their digests. Blobs are not read.
func openContent(folders []string) (*content, error) {
	if len(folders) > limits.BundleFolders {
		return nil, fmt.Errorf("%d folders are given, and the limit is %d", len(folders), limits.BundleFolders)
	}
	c := &content{manifests: map[digest.Digest]manifest{}, referrers: map[digest.Digest][]manifest{}, blobs: map[digest.Digest]ocispec.Descriptor{}, leftOut: map[digest.Digest]bool{}}
	for _, folder := range folders {
		l, err := openLayout(folder)
		if err != nil {
			c.close()
			return nil, err
		}
		c.folders = append(c.folders, l)
	}
	for _, l := range c.folders {
		if err := c.add(l); err != nil {
			c.close()
			return nil, fmt.Errorf("reading the bundle %s: %w", l.path, err)
		}
	}
	for _, m := range c.manifests {
		if m.subject != nil {
			c.referrers[m.subject.Digest] = append(c.referrers[m.subject.Digest], m)
		}
	}
	for _, list := range c.referrers {
		slices.SortFunc(list, func(a, b manifest) int { return cmp.Compare(a.Digest, b.Digest) })
	}
	slices.SortFunc(c.images, func(a, b image) int { return cmp.Compare(a.full, b.full) })
	return c, nil
}

// close closes the folders.
func (c *content) close() {
	for _, l := range c.folders {
		l.close()
	}
}

// add adds what the index of a folder reaches.
func (c *content) add(l *layout) error {
	index, err := l.index()
	if err != nil {
		return err
	}
	for _, d := range index.Manifests {
		if d.ArtifactType == recordType {
			r, err := readRecord(l, d)
			if err != nil {
				return err
			}
			c.records = append(c.records, r)
			for _, d := range r.Have {
				c.leftOut[d] = true
			}
			continue
		}
		if err := c.reach(d, 0); err != nil {
			return err
		}
		full := d.Annotations[ocispec.AnnotationRefName]
		if full == "" {
			continue
		}
		n, err := parseName(full)
		if err != nil {
			return err
		}
		c.images = slices.DeleteFunc(c.images, func(i image) bool { return i.full == n.full })
		c.images = append(c.images, image{n, c.manifests[d.Digest].Descriptor})
	}
	if len(c.images) > limits.BundleNames {
		return fmt.Errorf("the bundles have more than %d names", limits.BundleNames)
	}
	return nil
}

// reach adds a manifest with everything that it refers to, except for its subject.
func (c *content) reach(d ocispec.Descriptor, depth int) error {
	if _, ok := c.manifests[d.Digest]; ok {
		return nil
	}
	if depth > limits.BundleDepth {
		return fmt.Errorf("the manifest %s is more than %d references deep", d.Digest, limits.BundleDepth)
	}
	raw, err := c.document(d)
	if err != nil {
		return err
	}
	if c.documents += int64(len(raw)); c.documents > limits.BundleDocuments || len(c.manifests) >= limits.BundleManifests {
		return fmt.Errorf("there are more than %d manifests, or they are larger than %d bytes", limits.BundleManifests, limits.BundleDocuments)
	}
	m, err := parseManifest(d, raw)
	if err != nil {
		return err
	}
	c.manifests[d.Digest] = m
	for _, b := range m.blobs {
		c.blobs[b.Digest] = ocispec.Descriptor{MediaType: b.MediaType, Digest: b.Digest, Size: b.Size}
	}
	for _, child := range m.children {
		if err := c.reach(child, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// document returns a document of any of the folders. Errors other than a missing blob are of the
// last folder that has it.
func (c *content) document(d ocispec.Descriptor) ([]byte, error) {
	var err error
	for _, l := range slices.Backward(c.folders) {
		raw, bad := l.document(d, limits.Document)
		if bad == nil {
			return raw, nil
		}
		if err == nil || errors.Is(err, errNoBlob) {
			err = bad
		}
	}
	return nil, err
}

// open opens a blob of any of the folders. The caller closes the file.
func (c *content) open(d ocispec.Descriptor) (*os.File, error) {
	var err error
	for _, l := range slices.Backward(c.folders) {
		f, bad := l.blob(d)
		if bad == nil {
			return f, nil
		}
		if err == nil || errors.Is(err, errNoBlob) {
			err = bad
		}
	}
	return nil, err
}

// blobsOf returns all blobs in the order of their digests.
func (c *content) blobsOf() []ocispec.Descriptor {
	out := make([]ocispec.Descriptor, 0, len(c.blobs))
	for _, d := range c.blobs {
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b ocispec.Descriptor) int { return cmp.Compare(a.Digest, b.Digest) })
	return out
}

// complete checks that all blobs exist with their sizes.
func (c *content) complete() error {
	var problems []error
	left := 0
	for _, d := range c.blobsOf() {
		f, err := c.open(d)
		switch {
		case err == nil:
			_ = f.Close()
		case errors.Is(err, errNoBlob) && c.leftOut[d.Digest]:
			left++
		case len(problems) < maxProblems:
			problems = append(problems, err)
		}
	}
	if left > 0 {
		problems = append(problems, fmt.Errorf("%d blobs were left out with --have; give the folder of the earlier bundle, too, or copy this one over it", left))
	}
	return errors.Join(problems...)
}

// maxProblems is how many problems of one kind are printed.
const maxProblems = 20

// closure returns the total size of an image, with each blob once, and its platforms.
func (c *content) closure(root digest.Digest) (bytes int64, platforms []string) {
	seen := map[digest.Digest]bool{}
	var walk func(d digest.Digest, platform *ocispec.Platform)
	walk = func(d digest.Digest, platform *ocispec.Platform) {
		m, ok := c.manifests[d]
		if !ok || seen[d] {
			return
		}
		seen[d] = true
		bytes += m.Size
		for _, b := range m.blobs {
			if !seen[b.Digest] {
				seen[b.Digest], bytes = true, bytes+b.Size
			}
		}
		if !m.isIndex() {
			if p := c.platform(m, platform); p != "" {
				platforms = append(platforms, p)
			}
		}
		for _, child := range m.children {
			walk(child.Digest, child.Platform)
		}
	}
	walk(root, nil)
	return bytes, platforms
}
