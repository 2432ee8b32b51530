package request

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"maps"
	"slices"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	condav1 "slipway.dev/proto/gen/slipway/conda/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/oci"
)

// templateVersion is part of every content ID: changing it rebuilds all images.
const templateVersion = "1"

// ContentDigest returns the SHA-256, in hex, of everything that determines the content of
// an image and who may read it: the recipe, the user's repository, if any, and the scope. It
// does not include the request's token, time and fingerprint, cacheRepository and the
// naming, nor the location of the service's own repository, so that images are found again
// after the repository has moved.
func ContentDigest(r *buildv1.Recipe, to Destination) string {
	registry, repository := to.Registry, to.Repository
	if to.Own {
		registry, repository = "", ""
	}
	w := digester{sha256.New()}
	w.text("slipway content", templateVersion)
	condaFile := r.GetCondaFile()
	switch {
	case r.GetLockDigest() != "": // independent of the format
		condaFile = "lock " + r.GetLockDigest()
	case r.GetQueryDigest() != "":
		condaFile = "query " + r.GetQueryDigest()
	}
	w.text(r.GetContainerFile(), condaFile, r.GetPlatform(), r.GetFormat(), r.GetEngine())
	w.text(registry, repository, to.Scope)
	w.layer(r.GetContext())
	files := slices.SortedFunc(slices.Values(r.GetFiles()), func(a, b *buildv1.File) int { return cmp.Compare(a.GetPath(), b.GetPath()) })
	w.count(len(files))
	for _, f := range files {
		w.text(f.GetPath(), string(f.GetContent()))
	}
	w.config(r.GetConfig())
	if src := r.GetSource(); src != nil {
		w.text(src.GetRegistry(), src.GetRepository(), src.GetReference())
	}
	w.compression(r.GetCompression())
	w.sifKey(r)
	if r.GetMount() {
		w.text("slipway mount")
	}
	if r.GetSoci() {
		w.text("slipway soci")
	}
	if paths := r.GetSociPrefetch(); len(paths) > 0 {
		w.text("slipway soci prefetch")
		w.list(paths)
	}
	if set := r.GetVariables(); len(set) > 0 {
		w.text("slipway variables")
		for _, name := range slices.Sorted(maps.Keys(set)) {
			w.text(name, set[name])
		}
	}
	return hex.EncodeToString(w.Sum(nil))
}

// indexDigest returns the SHA-256, in hex, of everything that determines an index over
// builds.
func indexDigest(parts []*buildv1.SubmitBuildRequest) string {
	w := digester{sha256.New()}
	w.text("slipway index", templateVersion)
	for _, p := range parts {
		w.text(p.GetContentDigest())
	}
	return hex.EncodeToString(w.Sum(nil))
}

// sifDigest returns the SHA-256, in hex, of everything that determines a Singularity image
// of another build's result. With added content the digest includes the scope, because only
// its callers may read the image.
func sifDigest(of *buildv1.SubmitBuildRequest, r *buildv1.Recipe, scope string) string {
	w := digester{sha256.New()}
	w.text("slipway sif", templateVersion, of.GetContentDigest())
	w.sifKey(r)
	if added := r.GetConfig(); added != nil {
		w.text(scope)
		w.config(added)
	}
	return hex.EncodeToString(w.Sum(nil))
}

// sifKey adds the key that signs a Singularity image, which is part of the file.
func (w digester) sifKey(r *buildv1.Recipe) {
	if r.GetSifKey() != "" {
		w.text("slipway signed", r.GetSifKey())
	}
}

// ScopeOf returns the name of an identity in repository names: 16 hex digits.
func ScopeOf(id caller.ID) string {
	w := digester{sha256.New()}
	w.text("slipway scope", id.String())
	return hex.EncodeToString(w.Sum(nil))[:16]
}

// A digester hashes strings unambiguously: each is preceded by its length, and each list by
// its number of elements.
type digester struct{ hash.Hash }

func (w digester) count(n int) {
	_, _ = w.Write(binary.BigEndian.AppendUint64(nil, uint64(n)))
}

func (w digester) text(texts ...string) {
	for _, t := range texts {
		w.count(len(t))
		_, _ = w.Write([]byte(t))
	}
}

func (w digester) list(texts []string) {
	w.count(len(texts))
	w.text(texts...)
}

// query adds the query for the solver.
func (w digester) query(p *condav1.CondaPackages) {
	w.list(p.GetChannels())
	w.list(p.GetEntries())
	if p.GetEnvironment() != "" || p.GetEnvironmentName() != "" { // of a lock
		w.text("slipway lock file", p.GetEnvironment(), p.GetEnvironmentName())
	}
}

// layer adds a layer by its content and architecture. Its location does not count, unless
// it comes from another image.
func (w digester) layer(l *containerv1.Layer) {
	w.text(l.GetGzipDigest(), l.GetTarDigest(), oci.ArchitectureOf(l.GetLocation()))
	if from := l.GetIncludedFrom(); from != nil { // the image's history names it
		w.text("slipway include", from.GetRegistry(), from.GetRepository(), from.GetReference(), from.GetMediaType(), from.GetArchitecture())
	}
}

// config adds a configuration. An empty one counts as absent.
func (w digester) config(c *containerv1.ContainerConfig) {
	w.list(c.GetEntrypoint())
	w.list(c.GetCmd())
	w.list(c.GetEnv())
	w.text(c.GetWorkingDir())
	w.count(len(c.GetLayers()))
	for _, l := range c.GetLayers() {
		w.layer(l)
	}
}
