package request

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"slices"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/oci"
)

// templateVersion is part of every content's id: a new one builds all images anew.
const templateVersion = "1"

// ContentDigest is the SHA-256, in hex, over all that decides what an image holds
// and who may have it: the recipe, the repository and the scope. Not in it: the
// request's token, time and fingerprint, cacheRepository, and the naming.
func ContentDigest(r *buildv1.Recipe, registry, repository, scope string) string {
	w := digester{sha256.New()}
	w.text("slipway content", templateVersion)
	condaFile := r.GetCondaFile()
	if r.GetLockDigest() != "" { // however it was written
		condaFile = "lock " + r.GetLockDigest()
	}
	w.text(r.GetContainerFile(), condaFile, r.GetPlatform(), r.GetFormat(), r.GetEngine())
	w.text(registry, repository, scope)
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
	return hex.EncodeToString(w.Sum(nil))
}

// indexDigest is the SHA-256, in hex, over what decides an index over builds.
func indexDigest(parts []*buildv1.SubmitBuildRequest) string {
	w := digester{sha256.New()}
	w.text("slipway index", templateVersion)
	for _, p := range parts {
		w.text(p.GetContentDigest())
	}
	return hex.EncodeToString(w.Sum(nil))
}

// sifDigest is the SHA-256, in hex, over what decides a Singularity image of what
// another build makes, and who may have it: what is added to it is for its scope alone.
func sifDigest(of *buildv1.SubmitBuildRequest, added *containerv1.ContainerConfig, scope string) string {
	w := digester{sha256.New()}
	w.text("slipway sif", templateVersion, of.GetContentDigest())
	if added != nil {
		w.text(scope)
		w.config(added)
	}
	return hex.EncodeToString(w.Sum(nil))
}

// ScopeOf stands for an identity in the names of repositories: 16 hex digits.
func ScopeOf(id caller.ID) string {
	w := digester{sha256.New()}
	w.text("slipway scope", id.String())
	return hex.EncodeToString(w.Sum(nil))[:16]
}

// digester takes texts in such a way that different ones never look the same: each
// with its length before it, each list with its count.
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

// layer is known by its content, and by the architecture that it is for. Where it
// lies does not matter, unless it is another image's.
func (w digester) layer(l *containerv1.Layer) {
	w.text(l.GetGzipDigest(), l.GetTarDigest(), oci.ArchitectureOf(l.GetLocation()))
	if from := l.GetIncludedFrom(); from != nil { // the history names it
		w.text("slipway include", from.GetRegistry(), from.GetRepository(), from.GetReference(), from.GetMediaType(), from.GetArchitecture())
	}
}

// config counts as absent where there is nothing in it.
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
