package sif

import (
	"context"
	"errors"
	"os"
	"runtime"

	"slipway.dev/services/builder/arena"
	"slipway.dev/services/builder/flatten"
	"slipway.dev/services/builder/squashfs"
	"slipway.dev/services/internal/limits"
)

// squash writes the layers to a squashfs file. It starts again if they cannot be written in
// one pass.
func squash(ctx context.Context, path string, layers []flatten.Layer, img Image) (flatten.Summary, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return flatten.Summary{}, err
	}
	defer f.Close()
	memory := arena.NewBudget(limits.ImageTables)
	options := squashfs.Options{Compression: img.Compression, Workers: min(runtime.GOMAXPROCS(0), 4), Memory: memory}
	img.Limits.Memory = memory
	var summary flatten.Summary
	write := func(read func(context.Context, flatten.Output, []flatten.Layer, flatten.Limits) (flatten.Summary, error)) error {
		_, err := squashfs.Write(ctx, f, options, func(w *squashfs.Writer) (err error) {
			summary, err = read(ctx, w, layers, img.Limits)
			return err
		})
		return err
	}
	if err = write(flatten.Write); errors.Is(err, flatten.ErrTwice) {
		err = write(flatten.WriteTwice)
	}
	return summary, errors.Join(err, f.Close())
}
