package rootfs

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"slipway.dev/services/builder/unsquash"
	"slipway.dev/services/internal/limits"
)

// sifHeader is the start of a Singularity image (SIF, version 1).
type sifHeader struct {
	Script                  [32]byte
	Magic                   [10]byte
	Version, Arch           [3]byte
	ID                      [16]byte
	Created, Modified       int64
	Free, Total, At, Length int64 // of the descriptors
	DataAt, DataLength      int64
}

// sifDescriptor describes one part of a Singularity image.
type sifDescriptor struct {
	Type                        int32
	Used                        bool
	ID, Group, Link             uint32
	At, Size, Padded            int64
	Created, Modified, UID, GID int64
	Name                        [128]byte
	Kind, Part                  int32 // of a file system
	Arch                        [3]byte
	_                           [373]byte
}

const (
	sifMagic = "SIF_MAGIC\x00"
	// sifPartition is the type of file systems, of which sifSquash is a kind and sifPrimary the one with the root.
	sifPartition, sifSquash, sifPrimary = 0x4004, 1, 2
)

// architectures are the values of GOARCH of the codes in Singularity images.
func architectures() map[string]string {
	return map[string]string{"01": "386", "02": "amd64", "03": "arm", "04": "arm64", "06": "ppc64le", "11": "s390x", "12": "riscv64", "13": "loong64"}
}

// IsSingularity reports whether the start of a file is that of a Singularity image.
func IsSingularity(start []byte) bool {
	const at = 32
	return len(start) >= at+len(sifMagic) && string(start[at:at+len(sifMagic)]) == sifMagic
}

// A squash is the root file system of a Singularity image.
type squash struct {
	at, size int64
	arch     string
}

// errSingularity is returned for a file that is no Singularity image, or one that cannot be unpacked.
var errSingularity = errors.New("the Singularity image cannot be unpacked")

// findSquash finds the root file system in a file of a size.
func findSquash(r io.ReaderAt, size int64) (squash, error) {
	var h sifHeader
	if err := binary.Read(io.NewSectionReader(r, 0, size), binary.LittleEndian, &h); err != nil || string(h.Magic[:]) != sifMagic {
		return squash{}, fmt.Errorf("%w: its header is malformed", errSingularity)
	}
	if h.Total < 0 || h.Total > limits.SifDescriptors || h.At < 0 {
		return squash{}, fmt.Errorf("%w: it has %d parts, and the limit is %d", errSingularity, h.Total, limits.SifDescriptors)
	}
	in := io.NewSectionReader(r, h.At, max(size-h.At, 0))
	for range h.Total {
		var d sifDescriptor
		if err := binary.Read(in, binary.LittleEndian, &d); err != nil {
			return squash{}, fmt.Errorf("%w: its list of parts is incomplete", errSingularity)
		}
		if !d.Used || d.Type != sifPartition || d.Part != sifPrimary {
			continue
		}
		switch {
		case d.Kind != sifSquash:
			return squash{}, fmt.Errorf("%w: its root file system is encrypted, or not squashfs", errSingularity)
		case d.At < 0 || d.Size < 0 || d.At > size || d.Size > size-d.At:
			return squash{}, fmt.Errorf("%w: its root file system extends beyond the end of the file", errSingularity)
		}
		return squash{at: d.At, size: d.Size, arch: architectures()[string(bytes.TrimRight(d.Arch[:], "\x00"))]}, nil
	}
	return squash{}, fmt.Errorf("%w: it has no root file system", errSingularity)
}

// Singularity returns the files of a Singularity image as a layer. Its Open returns an error for another file, and for an image of
// another architecture than that of this machine.
func Singularity(path string, size int64) Layer {
	return Layer{Name: path, Size: size, Open: func(ctx context.Context) (io.ReadCloser, error) {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		return openSingularity(ctx, f, size, f.Close)
	}}
}

// OpenSingularity is as Singularity for an image that the caller has opened, and closes when the layer was read.
func OpenSingularity(name string, file io.ReaderAt, size int64) Layer {
	return Layer{Name: name, Size: size, Open: func(ctx context.Context) (io.ReadCloser, error) {
		return openSingularity(ctx, file, size, func() error { return nil })
	}}
}

// openSingularity returns the files of an image of a size. The function end is called when they were read, or after an error.
func openSingularity(ctx context.Context, file io.ReaderAt, size int64, end func() error) (io.ReadCloser, error) {
	root, err := findSquash(file, size)
	if err == nil && root.arch != runtime.GOARCH {
		err = fmt.Errorf("%w: it is for the architecture %q, and this machine has %s", errSingularity, root.arch, runtime.GOARCH)
	}
	if err != nil {
		return nil, errors.Join(err, end())
	}
	out, in := io.Pipe()
	go func() {
		_, err := unsquash.Tar(ctx, in, io.NewSectionReader(file, root.at, root.size), root.size, unsquash.Limits{
			Bytes: limits.MountRootBytes, Entries: limits.ImageEntries, Depth: limits.SifBaseDepth, LinkBytes: limits.ImageNameBytes,
		})
		in.CloseWithError(errors.Join(err, end()))
	}()
	return out, nil
}
