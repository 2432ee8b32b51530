package sif

import (
	"encoding/binary"
	"fmt"
	"os"

	native "github.com/sylabs/sif/v2/pkg/sif"

	"slipway.dev/services/builder/unsquash"
	"slipway.dev/services/internal/limits"
)

// A Root is the place of the root file system in a Singularity image.
type Root struct {
	// Offset and Size are in bytes.
	Offset, Size int64
	// Architecture is a value of GOARCH, such as "amd64".
	Architecture string
}

// descriptorsAt is the offset of the number of descriptors in a SIF header. It follows the
// launch script, the magic, the version, the architecture, the id, two timestamps, and the
// number of free descriptors.
const descriptorsAt = 32 + 10 + 3 + 3 + 16 + 8 + 8 + 8

// FindRoot finds the root file system, a squashfs, in the file at a path. It returns an
// *unsquash.Refusal if the file is not such an image.
func FindRoot(path string) (Root, error) {
	f, err := os.Open(path)
	if err != nil {
		return Root{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Root{}, err
	}
	var number [8]byte
	if _, err := f.ReadAt(number[:], descriptorsAt); err != nil || binary.LittleEndian.Uint64(number[:]) > limits.SifDescriptors {
		return Root{}, refuse("it is not a Singularity image: its header is malformed")
	}
	image, err := native.LoadContainer(f, native.OptLoadWithCloseOnUnload(false))
	if err != nil {
		return Root{}, refuse("it is not a Singularity image: %s", err)
	}
	d, err := image.GetDescriptor(native.WithPartitionType(native.PartPrimSys))
	if err != nil {
		return Root{}, refuse("it has no root file system")
	}
	kind, _, arch, err := d.PartitionMetadata()
	if err != nil || kind != native.FsSquash {
		return Root{}, refuse("its root file system is not squashfs")
	}
	if d.Offset() < 0 || d.Size() < 0 || d.Size() > info.Size()-d.Offset() {
		return Root{}, refuse("its root file system extends beyond the end of the file")
	}
	return Root{d.Offset(), d.Size(), arch}, nil
}

func refuse(format string, args ...any) error {
	return &unsquash.Refusal{Why: fmt.Sprintf(format, args...)}
}
