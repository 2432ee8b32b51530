// Package layertar reads a layer of an image as the stream of tar entries that it is:
// plain, or compressed with gzip or zstd. It keeps nothing of a layer but what it reads
// ahead, and trusts none: one that is damaged, or out of proportion to its size, is
// refused. The truth is the OCI image specification's layer.md.
package layertar

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
)

// Layer is one layer of an image.
type Layer struct {
	// Name is for messages, e.g. its digest.
	Name string
	// Open begins to read it: a tar, plain or compressed with gzip or zstd. However
	// often it is called, it must answer the same bytes, and is to fail at the end when
	// they are not those that were wanted.
	Open func(context.Context) (io.ReadCloser, error)
	// Size is its length as stored, in bytes; 0 means unknown. What is unpacked must
	// be in proportion to it.
	Size int64
	// Unpacked is told how many bytes more are unpacked; its error ends the reading. May
	// be nil.
	Unpacked func(n int64) error
}

// Limits are how much a Reader reads; a zero is no limit.
type Limits struct {
	// Bytes is the length of all that is unpacked.
	Bytes int64
	// Entries is the number of entries.
	Entries int
	// Image says that they are of all layers of an image together.
	Image bool
}

func (l Limits) errEntries() error {
	if l.Image {
		return Refuse("is of an image with more than %d entries", l.Entries)
	}
	return Refuse("has more than %d entries", l.Entries)
}

func (l Limits) errBytes() error {
	if l.Image {
		return Refuse("is of an image that unpacks to more than %d MiB", l.Bytes>>20)
	}
	return Refuse("unpacks to more than %d MiB", l.Bytes>>20)
}

// Refusal is a layer that cannot be read, whatever one does.
type Refusal struct {
	// Layer is the name of the one at fault.
	Layer string
	// Why is for the user.
	Why string
	// Cause is what a decoder says of one that is damaged; else nil.
	Cause error
}

// Error is the text for the user, and the cause.
func (r *Refusal) Error() string {
	if r.Cause != nil {
		return fmt.Sprintf("the layer %s %s: %v", r.Layer, r.Why, r.Cause)
	}
	return fmt.Sprintf("the layer %s %s", r.Layer, r.Why)
}

// Unwrap gives the cause.
func (r *Refusal) Unwrap() error { return r.Cause }

// errRefused is a refusal that does not know its layer yet.
type errRefused struct{ why string }

func (e *errRefused) Error() string { return e.why }

// Refuse says of the layer that is being read why it is refused: what Each makes a
// *Refusal of.
func Refuse(format string, args ...any) error { return &errRefused{fmt.Sprintf(format, args...)} }

// blame names the layer in a refusal.
func blame(l Layer, err error) error {
	var r *errRefused
	if errors.As(err, &r) {
		return &Refusal{Layer: l.Name, Why: r.why}
	}
	return err
}

// IsFile says whether an entry is a regular file, by whichever of their types.
func IsFile(h *tar.Header) bool {
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeRegA, tar.TypeCont, tar.TypeGNUSparse: //nolint:staticcheck // RegA is in old archives
		return true
	}
	return false
}
