// Package layertar reads the layers of an image as streams of tar entries, as specified by
// the OCI image specification (layer.md). A layer is a plain tar archive or an EROFS image (package
// erofslayer), or one that is compressed with gzip or zstd. The package stores nothing except its read buffers. Layers
// are untrusted: a damaged layer, or one that expands out of proportion to its stored size,
// is rejected with a LayerError.
package layertar

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
)

// A Layer is one layer of an image.
type Layer struct {
	// Name identifies the layer in messages, e.g. its digest.
	Name string
	// Open opens the layer: a tar archive, plain or compressed with gzip or zstd. Each call
	// must return the same bytes. The reader must return an error at its end if the content
	// was not the expected one.
	Open func(context.Context) (io.ReadCloser, error)
	// Size is the stored length in bytes, or 0 if unknown. It limits the unpacked length.
	Size int64
	// Unpacked is called with the number of bytes that were unpacked since the last call. An
	// error stops the reading. Unpacked may be nil.
	Unpacked func(n int64) error
}

// Limits bounds what a Reader reads from all of its layers together. Zero means no limit.
type Limits struct {
	// Bytes is the maximum unpacked length.
	Bytes int64
	// Entries is the maximum number of entries.
	Entries int
	// Image states that the layers are all layers of one image, for error messages.
	Image bool
}

func (l Limits) errEntries() error {
	if l.Image {
		return Invalidf("belongs to an image with more than %d entries", l.Entries)
	}
	return Invalidf("has more than %d entries", l.Entries)
}

func (l Limits) errBytes() error { return Invalidf("%s", l.TooLarge()) }

// TooLarge returns the reason of a LayerError for a layer that exceeds Bytes.
func (l Limits) TooLarge() string {
	if l.Image {
		return fmt.Sprintf("belongs to an image that unpacks to more than %d MiB", l.Bytes>>20)
	}
	return fmt.Sprintf("unpacks to more than %d MiB", l.Bytes>>20)
}

// A LayerError reports a layer that is invalid or exceeds a limit. Retrying does not help.
type LayerError struct {
	// Layer is the name of the layer.
	Layer string
	// Reason is a predicate for users, e.g. "has more than 10 entries".
	Reason string
	// Cause is the decoder's error for a damaged layer, otherwise nil.
	Cause error
}

// Error implements error.
func (r *LayerError) Error() string {
	if r.Cause != nil {
		return fmt.Sprintf("the layer %s %s: %v", r.Layer, r.Reason, r.Cause)
	}
	return fmt.Sprintf("the layer %s %s", r.Layer, r.Reason)
}

// Unwrap returns the cause.
func (r *LayerError) Unwrap() error { return r.Cause }

// invalidError is a LayerError whose layer is not known yet.
type invalidError struct{ reason string }

func (e *invalidError) Error() string { return e.reason }

// Invalidf returns an error for the layer that is being read. The format is a predicate, e.g.
// "has more than 10 entries". Each converts the error to a *LayerError.
func Invalidf(format string, args ...any) error { return &invalidError{fmt.Sprintf(format, args...)} }

// withLayer converts an error made by Invalidf to a LayerError.
func withLayer(l Layer, err error) error {
	var r *invalidError
	if errors.As(err, &r) {
		return &LayerError{Layer: l.Name, Reason: r.reason}
	}
	return err
}

// IsFile reports whether an entry is a regular file, of any of the type flags for files.
func IsFile(h *tar.Header) bool {
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeRegA, tar.TypeCont, tar.TypeGNUSparse: //nolint:staticcheck // RegA is in old archives
		return true
	}
	return false
}
