// Package sif converts container images to Singularity images, as an ordinary user and
// without other programs. Each layer is compressed once, as a part of images (package
// squashfs); an image is the blocks of the parts of its layers with new tables, in a SIF
// file. The same image produces the same bytes on every machine. The package does not
// access registries: its caller opens the layers.
package sif

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/opencontainers/go-digest"

	"slipway.dev/services/builder/arena"
	"slipway.dev/services/builder/flatten"
	"slipway.dev/services/builder/pieces"
	"slipway.dev/services/builder/squashfs"
	"slipway.dev/services/internal/limits"
)

// Media types of an image in a registry, as singularity and apptainer push them.
const (
	TypeConfig = "application/vnd.sylabs.sif.config.v1+json"
	TypeLayer  = "application/vnd.sylabs.sif.layer.v1.sif"
)

// Image is the input of Make.
type Image struct {
	// Config is the OCI image config, as JSON.
	Config []byte
	// Layers are the layers, lowest first.
	Layers []Layer
	// Limits bound the image's size.
	Limits flatten.Limits
	// Compressor compresses the squashfs.
	Compressor *squashfs.Compressor
	// Sign returns the content of the signature object for the metadata that it covers; nil makes
	// an image without a signature.
	Sign func(ctx context.Context, metadata []byte) ([]byte, error)
}

// File is a Singularity image, which is read from the parts of its layers. The caller closes it.
type File struct {
	*pieces.File
	Digest  digest.Digest
	Summary flatten.Summary

	parts  parts
	tables *os.File
}

// Close closes the parts. The image cannot be read any more.
func (f File) Close() error { return errors.Join(f.parts.Close(), f.tables.Close()) }

// launch makes the file executable as a program.
const launch = "#!/usr/bin/env run-singularity\n"

// config is the part of an image config that this package reads.
type config struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
	Config       struct {
		Env, Entrypoint, Cmd []string
		Labels               map[string]string
	} `json:"config"`
}

// Make makes the image from the parts of its layers, whose temporary files are in the folder dir. It
// returns a *flatten.Refusal or *squashfs.Refusal if no Singularity image can be made of the container
// image.
func Make(ctx context.Context, dir string, img Image) (File, error) {
	var c config
	if err := json.Unmarshal(img.Config, &c); err != nil {
		return File{}, &flatten.Refusal{Layer: "of the configuration", Reason: "is malformed: " + err.Error()}
	}
	if c.Architecture == "" {
		return File{}, &flatten.Refusal{Layer: "of the configuration", Reason: "names no architecture"}
	}
	bottom, top, err := c.layers()
	if err != nil {
		return File{}, err
	}
	layers := append([]Layer{{Layer: bottom}}, img.Layers...)
	layers = append(layers, Layer{Layer: top})
	memory := arena.NewBudget(limits.ImageTables)
	parts, err := openParts(ctx, dir, img, layers, memory)
	if err != nil {
		return File{}, err
	}
	out := File{parts: parts}
	if out.tables, err = temporary(dir); err != nil {
		return File{}, errors.Join(err, parts.Close())
	}
	if err := out.assemble(ctx, img, layers, memory, c.Architecture); err != nil {
		return File{}, errors.Join(err, out.Close())
	}
	return out, nil
}

// assemble makes the image of open parts.
func (f *File) assemble(ctx context.Context, img Image, layers []Layer, memory *arena.Budget, architecture string) error {
	root, err := f.squash(ctx, img, layers, memory)
	if err != nil {
		return err
	}
	if f.File, err = wrap(ctx, root, architecture, img.Sign); err != nil {
		return fmt.Errorf("writing the SIF file: %w", err)
	}
	d := digest.SHA256.Digester()
	if _, err = io.Copy(d.Hash(), f.Reader()); err != nil {
		return fmt.Errorf("reading the SIF file: %w", err)
	}
	f.Digest = d.Digest()
	return nil
}

// Reader returns a reader of the whole file.
func (f File) Reader() io.Reader { return io.NewSectionReader(f.File, 0, f.Size()) }

// squash merges the layers to a squashfs. It starts again if they cannot be merged in one pass.
func (f *File) squash(ctx context.Context, img Image, layers []Layer, memory *arena.Budget) (*pieces.File, error) {
	write := func(merge func(context.Context, flatten.Output, []flatten.Layer, flatten.Limits) (flatten.Summary, error)) (*pieces.File, error) {
		return squashfs.Write(ctx, f.tables, img.Compressor, memory, f.parts.squash(), func(w *squashfs.Writer) (err error) {
			a := &assembler{to: w, parts: f.parts.squash()}
			f.Summary, err = merge(ctx, a, a.listings(layers), flatten.Limits{
				Entries: img.Limits.Entries, Names: img.Limits.Names, NameBytes: img.Limits.NameBytes, Memory: memory,
			})
			f.Summary.Bytes = w.Bytes()
			return err
		})
	}
	root, err := write(flatten.Write)
	if errors.Is(err, flatten.ErrTwice) {
		root, err = write(flatten.WriteTwice)
	}
	return root, err
}
