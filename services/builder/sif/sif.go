// Package sif converts container images to Singularity images, as an ordinary user and
// without other programs. It writes the layers to one squashfs and puts that into a SIF
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
	"path/filepath"

	"github.com/opencontainers/go-digest"
	native "github.com/sylabs/sif/v2/pkg/sif"

	"slipway.dev/services/builder/flatten"
	"slipway.dev/services/builder/squashfs"
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
	Layers []flatten.Layer
	// Limits bound the image's size.
	Limits flatten.Limits
	// Compression is the squashfs compression.
	Compression squashfs.Compression
	// Sign returns the content of the signature object for the metadata that it covers; nil makes
	// an image without a signature.
	Sign func(ctx context.Context, metadata []byte) ([]byte, error)
}

// File is a Singularity image on disk.
type File struct {
	Path    string
	Digest  digest.Digest
	Size    int64 // in bytes
	Summary flatten.Summary
}

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

// Make writes the image into the folder dir, which the caller removes. It returns a
// *flatten.Refusal or *squashfs.Refusal if no Singularity image can be made of the
// container image.
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
	layers := append([]flatten.Layer{bottom}, img.Layers...)
	root := filepath.Join(dir, "root.squashfs")
	summary, err := squash(ctx, root, append(layers, top), img)
	if err != nil {
		return File{}, err
	}
	out := File{Path: filepath.Join(dir, "image.sif"), Summary: summary}
	if err := wrap(ctx, root, out.Path, c.Architecture, img.Sign); err != nil {
		return File{}, fmt.Errorf("writing the SIF file: %w", err)
	}
	if err := os.Remove(root); err != nil {
		return File{}, err
	}
	out.Digest, out.Size, err = sum(out.Path)
	return out, err
}

// wrap puts a squashfs into a SIF file. The file records neither time nor machine.
func wrap(ctx context.Context, root, path, architecture string, sign func(context.Context, []byte) ([]byte, error)) error {
	f, err := os.Open(root)
	if err != nil {
		return err
	}
	defer f.Close()
	partition, err := native.NewDescriptorInput(native.DataPartition, f,
		native.OptObjectName("root.squashfs"),
		native.OptPartitionMetadata(native.FsSquash, native.PartPrimSys, architecture))
	if err != nil {
		return err
	}
	image, err := native.CreateContainerAtPath(path, native.OptCreateDeterministic(),
		native.OptCreateWithLaunchScript(launch), native.OptCreateWithDescriptors(partition))
	if err != nil {
		return err
	}
	if sign != nil {
		if err := addSignature(ctx, image, sign); err != nil {
			return errors.Join(err, image.UnloadContainer())
		}
	}
	return image.UnloadContainer()
}

func sum(path string) (digest.Digest, int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	d := digest.SHA256.Digester()
	n, err := io.Copy(d.Hash(), f)
	return d.Digest(), n, err
}
