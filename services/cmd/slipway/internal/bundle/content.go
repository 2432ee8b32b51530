package bundle

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
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

	named     map[string]image // by full name
	documents int64            // the bytes of manifests and records so far
}

// An image is a named image of a bundle.
type image struct {
	name
	root ocispec.Descriptor
}

// isSif reports whether an image is a Singularity image.
func (c *content) isSif(i image) bool { return c.manifests[i.root.Digest].isSif() }

// openContent reads all manifests of bundles, verifying their digests. Blobs are not read.
func openContent(folders []string) (*content, error) {
	if len(folders) > limits.BundleFolders {
		return nil, fmt.Errorf("%d bundles are given, and the limit is %d", len(folders), limits.BundleFolders)
	}
	c := &content{manifests: map[digest.Digest]manifest{}, referrers: map[digest.Digest][]manifest{}, blobs: map[digest.Digest]ocispec.Descriptor{}, leftOut: map[digest.Digest]bool{}, named: map[string]image{}}
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
	c.images = slices.Collect(maps.Values(c.named))
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
	recorded := false
	for _, d := range index.Manifests {
		if d.ArtifactType == recordType {
			if recorded {
				return errors.New("it has several records of what was requested, and a bundle has one")
			}
			recorded = true
			if err := c.record(l, d); err != nil {
				return err
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
		if c.named[n.full] = (image{n, c.manifests[d.Digest].Descriptor}); len(c.named) > limits.BundleNames {
			return fmt.Errorf("the bundles have more than %d names", limits.BundleNames)
		}
	}
	return nil
}

// record adds the record of a folder.
func (c *content) record(l *layout, d ocispec.Descriptor) error {
	r, size, err := readSized(l, d)
	if err != nil {
		return err
	}
	if c.documents += size; c.documents > limits.BundleDocuments {
		return fmt.Errorf("the manifests and records are larger than %d bytes", int64(limits.BundleDocuments))
	}
	c.records = append(c.records, r)
	for _, d := range r.Have {
		c.leftOut[d] = true
	}
	return nil
}

// reach adds a manifest with everything that it refers to, except for its subject. The depth of a
// manifest that was read before is known, so that the order of the entries of an index does not matter.
func (c *content) reach(d ocispec.Descriptor, depth int) error {
	if m, ok := c.manifests[d.Digest]; ok {
		depth += m.height
	}
	if depth > limits.BundleDepth {
		return fmt.Errorf("the manifest %s is more than %d references deep", d.Digest, limits.BundleDepth)
	}
	if _, ok := c.manifests[d.Digest]; ok {
		return nil
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
	for _, child := range m.children {
		if err := c.reach(child, depth+1); err != nil {
			return err
		}
		m.height = max(m.height, c.manifests[child.Digest].height+1)
	}
	c.manifests[d.Digest] = m // after its children, so that a manifest that is listed is complete
	for _, b := range m.blobs {
		c.blobs[b.Digest] = ocispec.Descriptor{MediaType: b.MediaType, Digest: b.Digest, Size: b.Size}
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
func (c *content) open(d ocispec.Descriptor) (blobFile, error) {
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
		problems = append(problems, fmt.Errorf("%d blobs were left out with --have; give the earlier bundle, too", left))
	}
	return errors.Join(problems...)
}

// maxProblems is how many problems of one kind are printed.
const maxProblems = 20

// A size is the total size of an image, with each blob once, and its platforms.
type size struct {
	bytes     int64
	platforms []string
}

// sizes computes the sizes of images, each once.
type sizes struct {
	*content
	known map[digest.Digest]size
	steps int // manifests and blobs so far
}

// maxSteps is the maximum number of manifests and blobs that are counted for all images of a bundle.
// 50,000 indexes could have the same 200,000 manifests.
const maxSteps = 500 * limits.BundleManifests

// of returns the size of an image.
func (s *sizes) of(root digest.Digest) (size, error) {
	if out, ok := s.known[root]; ok {
		return out, nil
	}
	var out size
	seen := map[digest.Digest]bool{}
	var walk func(d digest.Digest, platform *ocispec.Platform)
	walk = func(d digest.Digest, platform *ocispec.Platform) {
		m, ok := s.manifests[d]
		if s.steps++; !ok || seen[d] || s.steps > maxSteps {
			return
		}
		seen[d] = true
		out.bytes += m.Size
		for _, b := range m.blobs {
			if s.steps++; !seen[b.Digest] {
				seen[b.Digest], out.bytes = true, out.bytes+b.Size
			}
		}
		if !m.isIndex() {
			if p := s.platform(m, platform); p != "" {
				out.platforms = append(out.platforms, p)
			}
		}
		for _, child := range m.children {
			walk(child.Digest, child.Platform)
		}
	}
	walk(root, nil)
	if s.steps > maxSteps {
		return size{}, errors.New("the images of the bundle share too many manifests to be listed; give fewer folders")
	}
	if s.known == nil {
		s.known = map[digest.Digest]size{}
	}
	s.known[root] = out
	return out, nil
}
