// Package sif is the engine that makes Singularity images of container images, and
// pushes them as ORAS does. What such a file is, package builder/sif knows. It keeps no
// file longer than a build.
package sif

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/regclient/regclient/types/descriptor"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/builder/flatten"
	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/builder/remote"
	"slipway.dev/services/builder/sif"
	"slipway.dev/services/builder/squashfs"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
)

// Options are the settings of the engine.
type Options struct {
	remote.Deps
	Compression squashfs.Compression
	// Dir is the engine's own folder; what is left in it is removed.
	Dir string
	// Disk is how much an image may unpack to, in bytes; 0 is no limit.
	Disk int64
}

// Engine makes Singularity images of container images, and pushes them as ORAS does.
type Engine struct{ o Options }

// New makes the engine.
func New(o Options) *Engine {
	_ = os.RemoveAll(o.Dir) // of a process that was killed
	return &Engine{o: o}
}

// Name is "sif".
func (s *Engine) Name() string { return "sif" }

// Architectures is "any": nothing of the image is run.
func (s *Engine) Architectures() []string { return []string{jobs.AnyArchitecture} }

// Problem is none: it needs no program.
func (s *Engine) Problem() string { return "" }

// Run has nothing to keep ready.
func (s *Engine) Run(context.Context) error { return nil }

// emptyConfig is what stands for a config in an artifact.
var emptyConfig = oci.NewDocument(sif.TypeConfig, []byte("{}")) //nolint:gochecknoglobals // never changed

// Build makes a Singularity image of the recipe's source. The digest is that of the
// manifest which was pushed.
func (s *Engine) Build(ctx context.Context, job jobs.Job, out jobs.Output) (string, error) {
	from, image, to, err := s.o.Open(ctx, job)
	if err != nil {
		return "", err
	}
	const what = "The Singularity image could not be pushed"
	// A registry that takes nothing says so before the work is done.
	if err := to.PutDocument(ctx, emptyConfig); err != nil {
		return "", to.Failed(ctx, what, err)
	}
	dir, err := s.folder()
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	out.Print("sif", "Making a Singularity image of "+from.Name)
	file, err := s.make(ctx, dir, from, image, job)
	if err != nil {
		return "", err
	}
	out.Print("", fmt.Sprintf("%d files and folders, %d bytes; the image is %s, %d bytes", file.Summary.Entries, file.Summary.Bytes, file.Digest, file.Size))
	if n := file.Summary.LeftOut; n > 0 {
		out.Print("", fmt.Sprintf("%d device nodes were left out: an ordinary user can make none", n))
	}
	out.Print("push", "Pushing it to "+job.Place())
	d, err := push(ctx, to, file, job.ContentDigest)
	return d.String(), to.Failed(ctx, what, err)
}

func (s *Engine) folder() (string, error) {
	if s.o.Dir != "" {
		if err := os.MkdirAll(s.o.Dir, 0o700); err != nil {
			return "", err
		}
	}
	return os.MkdirTemp(s.o.Dir, "sif-")
}

func (s *Engine) make(ctx context.Context, dir string, from *remote.Source, image oci.Image, job jobs.Job) (sif.File, error) {
	layers, err := all(from, job.Recipe.GetConfig(), job.Recipe.GetPlatform())
	if err != nil {
		return sif.File{}, err
	}
	file, err := sif.Make(ctx, dir, sif.Image{
		Config: image.Config.Bytes, Layers: layers, Compression: s.o.Compression,
		Limits: flatten.Limits{Bytes: s.o.Disk, Entries: limits.ImageEntries, Names: limits.ImageEntries, NameBytes: limits.ImageNameBytes},
	})
	if errors.As(err, new(*flatten.Refusal)) || errors.As(err, new(*squashfs.Refusal)) {
		return file, jobs.Build.Failure("No Singularity image can be made: "+fault.Clip(err.Error(), jobs.TextBytes), err)
	}
	return file, err
}

// all are the layers of the image, and those of a configuration on top.
func all(o *remote.Source, c *containerv1.ContainerConfig, platform string) ([]flatten.Layer, error) {
	p, err := oci.ParsePlatform(platform)
	if err != nil {
		return nil, err
	}
	var out []flatten.Layer
	for _, l := range o.Layers {
		out = append(out, flatten.Layer{Name: l.Digest.String(), Size: l.Size, Open: func(ctx context.Context) (io.ReadCloser, error) {
			return o.Open(ctx, l)
		}})
	}
	for _, l := range remote.LayersFor(c, p) {
		out = append(out, flatten.Layer{Name: l.GetGzipDigest(), Size: l.GetGzipSize(), Open: func(ctx context.Context) (io.ReadCloser, error) {
			return o.OpenAdded(ctx, l)
		}})
	}
	return out, nil
}

// push pushes a Singularity image, as ORAS does. Nothing in its manifest tells which build it was:
// the same content has the same digest.
func push(ctx context.Context, t *remote.Target, file sif.File, contentDigest string) (digest.Digest, error) {
	f, err := os.Open(file.Path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	d := descriptor.Descriptor{MediaType: sif.TypeLayer, Digest: file.Digest, Size: file.Size}
	if there, err := t.Client.BlobHead(ctx, t.Ref, d); err == nil {
		_ = there.Close()
	} else if err := t.PutBlob(ctx, d, f); err != nil {
		return "", err
	}
	raw, err := json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		Config: ocispec.Descriptor{MediaType: sif.TypeConfig, Digest: emptyConfig.Digest, Size: int64(len(emptyConfig.Bytes))},
		Layers: []ocispec.Descriptor{{
			MediaType: sif.TypeLayer, Digest: file.Digest, Size: file.Size,
			Annotations: map[string]string{ocispec.AnnotationTitle: "image.sif"},
		}},
		Annotations: map[string]string{"dev.slipway.content-digest": contentDigest},
	})
	if err != nil {
		return "", err
	}
	doc := oci.NewDocument(ocispec.MediaTypeImageManifest, raw)
	return doc.Digest, t.PutManifest(ctx, t.Ref, doc)
}
