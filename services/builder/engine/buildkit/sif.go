package buildkit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/containerd/containerd/v2/core/content"
	folder "github.com/containerd/containerd/v2/plugins/content/local"
	"github.com/distribution/reference"
	"github.com/moby/buildkit/client"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/builder/remote"
	"slipway.dev/services/builder/sif"
	"slipway.dev/services/builder/unsquash"
	"slipway.dev/services/internal/dockerfile"
	"slipway.dev/services/internal/fault"
	bounds "slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/upstream"
)

// sifPath is the PATH of images that are converted from Singularity images, which set their
// own variables in scripts.
const sifPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// addSifBases converts each Singularity image that the Dockerfile begins from to a
// container image of one layer. It offers that image to the daemon under the same name,
// from a store that it adds to stores. The same file produces the same layer, so that the
// daemon stores it only once.
func (b *Engine) addSifBases(ctx context.Context, opt *client.SolveOpt, stores map[string]content.Store, job jobs.Job, from *sources, dir string, out jobs.Output) error {
	if !job.Recipe.GetSifBase() || b.o.Registries == nil {
		return nil
	}
	platform, err := oci.ParsePlatform(job.Recipe.GetPlatform())
	if err != nil {
		return err
	}
	file, err := dockerfile.Read(job.Recipe.GetContainerFile())
	if err != nil {
		return err
	}
	images, err := file.Images(platform)
	if err != nil {
		return err
	}
	for i, image := range images {
		base := sifBase{engine: b, from: from, image: image, platform: platform, dir: filepath.Join(dir, fmt.Sprint("sif", i)), out: out}
		found, err := base.find(ctx)
		if err == nil && found.Digest == "" {
			continue // a container image, which the daemon gets itself
		}
		var manifest digest.Digest
		if err == nil {
			manifest, err = base.convert(ctx, found)
		}
		if err != nil {
			return base.failure(ctx, err)
		}
		key := fmt.Sprint("sif", i)
		if stores["oci:"+key], err = folder.NewStore(base.dir); err != nil {
			return err
		}
		named, err := reference.ParseNormalizedNamed(image.String())
		if err != nil {
			return fmt.Errorf("the name %s: %w", image, err)
		}
		opt.FrontendAttrs["context:"+strings.TrimSuffix(reference.FamiliarString(named), ":latest")] = "oci-layout://" + key + "@" + manifest.String()
		from.offer(manifest)
	}
	return nil
}

// A sifBase is an image that may be a Singularity image.
type sifBase struct {
	engine   *Engine
	from     *sources
	image    oci.Reference
	platform ocispec.Platform
	dir      string
	out      jobs.Output
}

// failure returns the failure of a build for an error of its base image.
func (s *sifBase) failure(ctx context.Context, err error) error {
	var refusal *unsquash.Refusal
	const what = "The Singularity image %s cannot be used: %s"
	if errors.As(err, &refusal) {
		return jobs.Build.Failure(fmt.Sprintf(what, s.image, refusal.Why), err)
	}
	if f, ok := fault.As(err); ok && ctx.Err() == nil {
		return jobs.Build.Failure(fmt.Sprintf(what, s.image, f.Public), err)
	}
	return err
}

func (s *sifBase) repository() upstream.Repository {
	return upstream.Repository{Host: oci.CanonicalHost(s.image.Registry), Name: s.image.Repository}
}

func (s *sifBase) access() upstream.Access {
	login, _ := s.from.of(s.repository())
	return upstream.Access{Scope: "build " + s.from.scope, Login: login}
}

// find returns the file of a Singularity image; the zero value for a container image. It
// fails if the build's login may not read the image.
func (s *sifBase) find(ctx context.Context) (ocispec.Descriptor, error) {
	if why := s.from.refusal(ctx, imageScheme+s.image.String()); why != "" {
		return ocispec.Descriptor{}, &unsquash.Refusal{Why: why}
	}
	doc, err := s.engine.o.Registries.Manifest(ctx, s.repository(), s.image.Identifier(), s.access())
	if err != nil || oci.IsIndex(doc.MediaType) {
		return ocispec.Descriptor{}, err
	}
	if why := s.from.checkSigned(ctx, s.image.String(), doc.Digest.String()); why != "" {
		return ocispec.Descriptor{}, &unsquash.Refusal{Why: why}
	}
	m, err := oci.ParseManifest(doc)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	for _, l := range m.Layers {
		if l.MediaType == sif.TypeLayer {
			s.from.noteImage(s.image.String(), doc.Digest.String())
			return l, nil
		}
	}
	return ocispec.Descriptor{}, nil
}

// convert fetches the file, and writes the image into the folder. It returns the digest of
// its manifest.
func (s *sifBase) convert(ctx context.Context, found ocispec.Descriptor) (digest.Digest, error) {
	if found.Size > bounds.SifBasePacked {
		return "", &unsquash.Refusal{Why: fmt.Sprintf("it has more than %d GiB", bounds.SifBasePacked>>30)}
	}
	blobs := filepath.Join(s.dir, "blobs", "sha256")
	if err := os.MkdirAll(blobs, 0o700); err != nil {
		return "", err
	}
	s.out.Print("sif", fmt.Sprintf("Unpacking the Singularity image %s, %d bytes, to a layer", s.image, found.Size))
	packed := filepath.Join(s.dir, "base.sif")
	if err := s.fetch(ctx, found, packed); err != nil {
		return "", err
	}
	root, err := sif.FindRoot(packed)
	if err != nil {
		return "", err
	}
	if root.Architecture != s.platform.Architecture {
		return "", &unsquash.Refusal{Why: fmt.Sprintf("it is for %s, and the build for %s", root.Architecture, s.platform.Architecture)}
	}
	layer, err := s.unpack(ctx, packed, root, filepath.Join(s.dir, "layer.tar"))
	if err != nil {
		return "", err
	}
	if err := errors.Join(os.Remove(packed), os.Rename(filepath.Join(s.dir, "layer.tar"), filepath.Join(blobs, layer.Digest.Encoded()))); err != nil {
		return "", err
	}
	config, err := writeDocument(blobs, ocispec.MediaTypeImageConfig, ocispec.Image{
		Platform: ocispec.Platform{Architecture: root.Architecture, OS: "linux"},
		Config:   ocispec.ImageConfig{Env: []string{sifPath}},
		RootFS:   ocispec.RootFS{Type: "layers", DiffIDs: []digest.Digest{layer.Digest}},
		History:  []ocispec.History{{CreatedBy: "SIF " + found.Digest.String()}},
	})
	if err != nil {
		return "", err
	}
	manifest, err := writeDocument(blobs, ocispec.MediaTypeImageManifest, ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, Config: config, Layers: []ocispec.Descriptor{layer},
	})
	return manifest.Digest, err
}

// fetch downloads the file and verifies it.
func (s *sifBase) fetch(ctx context.Context, found ocispec.Descriptor, to string) error {
	body, err := s.engine.o.Registries.ReadBlob(ctx, s.repository(), found.Digest, s.access(), 0, found.Size)
	if err != nil {
		return err
	}
	defer body.Close()
	in, err := remote.NewVerifier(body, found.Digest.String(), found.Size)
	if err != nil {
		return &unsquash.Refusal{Why: "its digest is malformed"}
	}
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, in)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := in.Verify(); err != nil {
		return &unsquash.Refusal{Why: err.Error()}
	}
	return nil
}

// unpack writes the files of the root file system as a tar.
func (s *sifBase) unpack(ctx context.Context, packed string, root sif.Root, to string) (ocispec.Descriptor, error) {
	in, err := os.Open(packed)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	defer in.Close()
	f, err := os.Create(to)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	most := int64(bounds.SifBaseBytes)
	if s.engine.o.Disk > 0 {
		most = min(most, s.engine.o.Disk)
	}
	sum := digest.SHA256.Digester()
	made, err := unsquash.Tar(ctx, io.MultiWriter(f, sum.Hash()), io.NewSectionReader(in, root.Offset, root.Size), root.Size,
		unsquash.Limits{Bytes: most, Entries: bounds.ImageEntries, Depth: bounds.SifBaseDepth, LinkBytes: bounds.ImageNameBytes})
	info, statErr := f.Stat()
	if err = errors.Join(err, statErr, f.Close()); err != nil {
		return ocispec.Descriptor{}, err
	}
	if made.LeftOut > 0 {
		s.out.Print("", fmt.Sprintf("%d device nodes and sockets were left out", made.LeftOut))
	}
	return ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayer, Digest: sum.Digest(), Size: info.Size()}, nil
}

// writeDocument writes a document of an image as a blob.
func writeDocument(blobs, mediaType string, v any) (ocispec.Descriptor, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	d := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(raw), Size: int64(len(raw))}
	return d, os.WriteFile(filepath.Join(blobs, d.Digest.Encoded()), raw, 0o600)
}
