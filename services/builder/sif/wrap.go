package sif

import (
	"bytes"
	"context"
	"fmt"
	"io"

	native "github.com/sylabs/sif/v2/pkg/sif"

	"slipway.dev/services/builder/pieces"
)

// wrap returns a SIF file with a root file system. The file records neither time nor machine.
func wrap(ctx context.Context, root *pieces.File, architecture string, sign func(context.Context, []byte) ([]byte, error)) (*pieces.File, error) {
	w := &wrapper{root: root}
	partition, err := native.NewDescriptorInput(native.DataPartition, rootReader{w},
		native.OptObjectName("root.squashfs"),
		native.OptPartitionMetadata(native.FsSquash, native.PartPrimSys, architecture))
	if err != nil {
		return nil, err
	}
	image, err := native.CreateContainer(w, native.OptCreateDeterministic(),
		native.OptCreateWithLaunchScript(launch), native.OptCreateWithDescriptors(partition))
	if err != nil {
		return nil, err
	}
	if sign != nil {
		if err := addSignature(ctx, image, sign); err != nil {
			return nil, err
		}
	}
	return w.file(), nil
}

// A wrapper is a SIF file that is written in memory, except for its root file system, which is not
// copied. It implements native.ReadWriter.
type wrapper struct {
	root *pieces.File
	// begin is the position of the root file system; 0 as long as it has none.
	begin, at     int64
	before, after native.Buffer
}

// file returns the complete file.
func (w *wrapper) file() *pieces.File {
	head := make([]byte, w.begin)
	copy(head, w.before.Bytes())
	var out pieces.File
	out.Append(bytes.NewReader(head), 0, w.begin)
	out.Append(w.root, 0, w.root.Size())
	out.Append(bytes.NewReader(w.after.Bytes()), 0, w.after.Len())
	return &out
}

// end returns the position behind the root file system.
func (w *wrapper) end() int64 { return w.begin + w.root.Size() }

// Write writes before or behind the root file system.
func (w *wrapper) Write(p []byte) (int, error) {
	to, at := &w.before, w.at
	switch {
	case w.begin == 0 || w.at+int64(len(p)) <= w.begin:
	case w.at >= w.end():
		to, at = &w.after, w.at-w.end()
	default:
		return 0, fmt.Errorf("writing %d bytes at %d, into the root file system", len(p), w.at)
	}
	if _, err := to.Seek(at, io.SeekStart); err != nil {
		return 0, err
	}
	n, err := to.Write(p)
	w.at += int64(n)
	return n, err
}

// Seek sets the position of the next Write.
func (w *wrapper) Seek(offset int64, whence int) (int64, error) {
	if whence != io.SeekStart || offset < 0 {
		return 0, fmt.Errorf("seeking to %d from %d", offset, whence)
	}
	w.at = offset
	return offset, nil
}

// ReadAt reads the file as it is so far.
func (w *wrapper) ReadAt(p []byte, at int64) (int, error) { return w.file().ReadAt(p, at) }

// Truncate is not supported, since no object is removed.
func (w *wrapper) Truncate(int64) error { return fmt.Errorf("truncating a SIF file") }

// rootReader is the root file system as an object of its wrapper.
type rootReader struct{ to *wrapper }

// Read is not called, since WriteTo is preferred.
func (r rootReader) Read([]byte) (int, error) {
	return 0, fmt.Errorf("reading a root file system that is not copied")
}

// WriteTo reserves the space of the root file system in the wrapper.
func (r rootReader) WriteTo(io.Writer) (int64, error) {
	r.to.begin = r.to.at
	r.to.at += r.to.root.Size()
	return r.to.root.Size(), nil
}
