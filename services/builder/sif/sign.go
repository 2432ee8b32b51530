package sif

import (
	"bytes"
	"context"
	"crypto"
	"encoding/json"
	"fmt"
	"io"

	"github.com/opencontainers/go-digest"
	native "github.com/sylabs/sif/v2/pkg/sif"

	"slipway.dev/services/internal/attest"
)

// addSignature appends a signature of the file's only partition, as `singularity sign` and
// `apptainer sign` do. The object records no time, so that the same content and key produce the
// same file.
func addSignature(ctx context.Context, image *native.FileImage, sign func(context.Context, []byte) ([]byte, error)) error {
	partition, err := image.GetDescriptor(native.WithPartitionType(native.PartPrimSys))
	if err != nil {
		return err
	}
	metadata, err := metadataOf(image, partition)
	if err != nil {
		return err
	}
	envelope, err := sign(ctx, metadata)
	if err != nil {
		return err
	}
	object, err := native.NewDescriptorInput(native.DataSignature, bytes.NewReader(envelope),
		native.OptNoGroup(), native.OptLinkedGroupID(partition.GroupID()), native.OptSignatureMetadata(crypto.SHA256, nil))
	if err != nil {
		return err
	}
	return image.AddObject(object, native.OptAddDeterministic())
}

// metadataOf returns what the signature covers. The partition is the first object of its group.
func metadataOf(image *native.FileImage, partition native.Descriptor) ([]byte, error) {
	var sums []string
	for _, from := range []io.Reader{image.GetHeaderIntegrityReader(), partition.GetIntegrityReader(), partition.GetReader()} {
		d, err := digest.SHA256.FromReader(from)
		if err != nil {
			return nil, fmt.Errorf("reading the SIF file: %w", err)
		}
		sums = append(sums, d.String())
	}
	return json.Marshal(attest.SIFMetadata{
		Version: 1, Header: attest.SIFHeader{Digest: sums[0]},
		Objects: []attest.SIFObject{{DescriptorDigest: sums[1], ObjectDigest: sums[2]}},
	})
}
