// Package sif is the engine that converts container images to Singularity images and pushes
// them as ORAS artifacts. Package builder/sif implements the format. The engine stores
// compressed layers, which may be lost.
package sif

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/builder/flatten"
	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/builder/remote"
	"slipway.dev/services/builder/sif"
	"slipway.dev/services/builder/sif/parts"
	"slipway.dev/services/builder/squashfs"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
)

// Options are the settings of the engine.
type Options struct {
	remote.Deps
	// Parts stores the compressed layers.
	Parts *parts.Store
	// Dir is the engine's own folder, for temporary files. The engine deletes its contents at startup.
	Dir string
	// Disk limits the unpacked size of an image in bytes; 0 means no limit.
	Disk int64
	// Store is the host of the embedded image store, which stores an image as its parts; "" for none.
	Store string
}

// Engine converts container images to Singularity images and pushes them as ORAS artifacts. It
// compresses each layer once. So an image of layers that it has converted before, or that the worker
// has made for it, only takes the time to read, hash and push it.
type Engine struct {
	o       Options
	problem string
}

// New creates the engine. If it cannot store files, Problem returns why.
func New(o Options) *Engine {
	s := &Engine{o: o}
	err := os.RemoveAll(o.Dir) // files of a process that was killed
	if err == nil && o.Dir != "" {
		err = os.MkdirAll(o.Dir, 0o700)
	}
	if err != nil {
		s.problem = "Singularity images cannot be stored: " + err.Error()
	}
	return s
}

// Name returns "sif".
func (s *Engine) Name() string { return "sif" }

// Architectures returns "any" if parts can be stored, since nothing of the image is run.
func (s *Engine) Architectures() []string {
	if s.problem != "" {
		return nil
	}
	return []string{jobs.AnyArchitecture}
}

// Problem returns the reason why no images can be made, or "".
func (s *Engine) Problem() string { return s.problem }

// Run returns immediately.
func (s *Engine) Run(context.Context) error { return nil }

// emptyConfig is the artifact's config.
var emptyConfig = oci.NewDocument(sif.TypeConfig, []byte("{}")) //nolint:gochecknoglobals // never changed

// Build converts the recipe's source to a Singularity image. It returns the digest of the
// pushed manifest.
func (s *Engine) Build(ctx context.Context, job jobs.Job, out jobs.Output) (string, error) {
	from, image, to, err := s.o.Open(ctx, job)
	if err != nil {
		return "", err
	}
	const what = "The Singularity image could not be pushed"
	// The config is pushed first, so that a registry which rejects pushes fails before the
	// work is done.
	if err := to.PutDocument(ctx, emptyConfig); err != nil {
		return "", to.Failed(ctx, what, err)
	}
	out.Print("sif", "Making a Singularity image of "+from.Name)
	file, err := s.make(ctx, out, from, image, job)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	out.Print("", fmt.Sprintf("%d files and folders, %d bytes; the image is %s, %d bytes", file.Summary.Entries, file.Summary.Bytes, file.Digest, file.Size()))
	if n := file.Summary.LeftOut; n > 0 {
		out.Print("", fmt.Sprintf("%d device nodes were left out: an ordinary user can make none", n))
	}
	out.Print("push", "Pushing it to "+job.RepositoryName())
	d, err := s.push(ctx, out, to, file, job.ContentDigest)
	if err != nil {
		return "", to.Failed(ctx, what, err)
	}
	return d.String(), reportInputs(ctx, from, job)
}

// reportInputs reports the image that was converted, and its layers.
func reportInputs(ctx context.Context, from *remote.Source, job jobs.Job) error {
	layers, err := allLayers(from, job.Recipe.GetConfig(), job.Recipe.GetPlatform())
	if err != nil {
		return err
	}
	in := &buildv1.Inputs{}
	jobs.AddInput(in, from.Input(ctx, digest.Digest(job.Recipe.GetSource().GetReference())))
	jobs.AddInput(in, from.Input(ctx, from.Digest()))
	for _, l := range layers {
		jobs.AddInput(in, &buildv1.Input{Digest: l.Name, Layer: true})
	}
	job.HasRead(in)
	return nil
}

func (s *Engine) make(ctx context.Context, out jobs.Output, from *remote.Source, image oci.Image, job jobs.Job) (sif.File, error) {
	layers, err := s.layers(from, out, job)
	if err != nil {
		return sif.File{}, err
	}
	var sign func(context.Context, []byte) ([]byte, error)
	if job.Recipe.GetSifKey() != "" {
		sign = s.o.Logins(job).SignSif
	}
	defer func() {
		if err := s.o.Parts.Prune(); err != nil {
			out.Print("", "Old compressed layers could not be removed from the worker")
		}
	}()
	file, err := sif.Make(ctx, s.o.Dir, sif.Image{
		Config: image.Config.Bytes, Layers: layers, Compressor: s.o.Parts.Compressor(), Sign: sign,
		Limits: flatten.Limits{Bytes: s.o.Disk, Entries: limits.ImageEntries, Names: limits.ImageEntries, NameBytes: limits.ImageNameBytes},
	})
	if errors.As(err, new(*flatten.Refusal)) || errors.As(err, new(*squashfs.Refusal)) {
		return file, jobs.Build.Failure("No Singularity image can be made: "+fault.Clip(err.Error(), jobs.TextBytes), err)
	}
	if e, ok := fault.As(err); ok && errors.Is(e, fault.Conflict) { // the key was replaced
		return file, jobs.Build.Failure(e.Public, err)
	}
	return file, err
}

// layers returns the layers of the image followed by those of the configuration. The parts of the
// image's layers are stored. Those of the configuration are made for each image, because the request
// has to prove that it can read them.
func (s *Engine) layers(from *remote.Source, out jobs.Output, job jobs.Job) ([]sif.Layer, error) {
	all, err := allLayers(from, job.Recipe.GetConfig(), job.Recipe.GetPlatform())
	if err != nil {
		return nil, err
	}
	layers := make([]sif.Layer, len(all))
	for i, l := range all {
		layers[i] = sif.Layer{Layer: l}
		if i < len(from.Layers) {
			layers[i].Keep = s.keeper(from, from.Layers[i], out)
		}
	}
	return layers, nil
}

// keeper returns the function that opens the stored part of a layer.
func (s *Engine) keeper(from *remote.Source, l ocispec.Descriptor, out jobs.Output) func(context.Context, func(io.Writer) error) (sif.OpenPart, error) {
	return func(ctx context.Context, write func(io.Writer) error) (sif.OpenPart, error) {
		if err := from.MayRead(ctx, l); err != nil {
			return sif.OpenPart{}, err
		}
		return s.o.Parts.Open(ctx, from.Host(), l.Digest, func(to io.Writer) error {
			out.Print("", fmt.Sprintf("Compressing the layer %s, %d bytes", l.Digest, l.Size))
			return write(to)
		})
	}
}

// allLayers returns the layers of the image followed by those of the configuration.
func allLayers(o *remote.Source, c *containerv1.ContainerConfig, platform string) ([]flatten.Layer, error) {
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
