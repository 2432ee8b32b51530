package layering

import (
	"os"
	"time"

	"slipway.dev/services/conda/packages/artifact"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/memo"
)

// A packageDocument is the decoded document of a package. It is valid while its file has the same size
// and time.
type packageDocument struct {
	Package
	size     int64
	modified time.Time
}

// newDocuments returns a cache of documents, because environments use the same packages: decoding
// them is most of the work for an environment whose layers all exist.
func newDocuments() *memo.Cache[spec.LayerKey, packageDocument] {
	return memo.NewCache(memo.Options[spec.LayerKey, packageDocument]{
		Weight: limits.CondaDocumentsCached,
		Weigh:  func(_ spec.LayerKey, d packageDocument) uint32 { return sizeOf(d.Package) },
	})
}

// sizeOf returns the approximate memory of a package in bytes.
func sizeOf(p Package) uint32 {
	const fixed, text = 1000, 16
	size := fixed + len(p.About.Summary) + len(p.About.Home) + len(p.About.License)
	for _, s := range p.Paths {
		size += text + len(s)
	}
	for s, target := range p.HardLinks {
		size += 4*text + len(s) + len(target)
	}
	for _, scripts := range [][]artifact.Script{p.LinkScripts, p.Activation} {
		for _, s := range scripts {
			size += 2*text + len(s.Path) + len(s.Text)
		}
	}
	return uint32(size)
}

// document returns the package that the document of a key describes. Callers must not change it.
func (f *Folder) document(key spec.LayerKey) (Package, error) {
	file := f.path("packages", string(key))
	info, err := os.Stat(file)
	if err != nil {
		return Package{}, err
	}
	d, ok := f.documents.Get(key)
	if ok && d.size == info.Size() && d.modified.Equal(info.ModTime()) {
		return d.Package, nil
	}
	p, err := readPackage(file)
	if err == nil {
		f.documents.Set(key, packageDocument{p, info.Size(), info.ModTime()})
	}
	return p, err
}
