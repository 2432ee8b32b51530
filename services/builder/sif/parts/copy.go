package parts

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"

	"github.com/opencontainers/go-digest"

	"slipway.dev/services/builder/arena"
	"slipway.dev/services/builder/flatten"
	"slipway.dev/services/builder/sif"
	"slipway.dev/services/internal/layertar"
	"slipway.dev/services/internal/limits"
)

// A Copy makes the part of a layer while the layer is made: it receives the layer's tar. The part of a
// layer for which that fails is made when an image needs it.
type Copy struct {
	store *Store
	host  string
	file  *os.File
	to    *io.PipeWriter
	// out collects the small writes of a tar; nil after an error.
	out  *bufio.Writer
	done chan error
}

// Copy returns a copy for a layer that will be pushed to the registry at host. Its Close must be called.
func (s *Store) Copy(ctx context.Context, host string) *Copy {
	c := &Copy{store: s, host: host, done: make(chan error, 1)}
	var err error
	if c.file, err = os.CreateTemp(s.temporary(), ""); err != nil {
		c.done <- err
		return c
	}
	from, to := io.Pipe()
	c.to, c.out = to, bufio.NewWriterSize(to, 128<<10)
	go func() {
		l := flatten.Layer{Name: "that is made", Open: func(context.Context) (io.ReadCloser, error) { return from, nil }}
		err := sif.WritePart(ctx, c.file, s.compressor, l, layertar.Limits{Entries: limits.ImageEntries}, arena.NewBudget(limits.LayerTables))
		_ = from.CloseWithError(errors.Join(err, io.ErrClosedPipe))
		c.done <- err
	}()
	return c
}

// Write implements io.Writer. It never returns an error, so that the layer does not fail with its copy.
func (c *Copy) Write(p []byte) (int, error) {
	if c.out != nil {
		if _, err := c.out.Write(p); err != nil {
			c.out = nil
		}
	}
	return len(p), nil
}

// Close stores the part under the digest of the layer, or removes it if the digest is "".
func (c *Copy) Close(layer digest.Digest) error {
	var incomplete error
	if layer == "" {
		incomplete = errors.New("the layer was not made")
	} else if c.out != nil {
		_ = c.out.Flush() // its error is that of the reading side
	}
	if c.to != nil {
		_ = c.to.CloseWithError(incomplete)
	}
	err := errors.Join(<-c.done, incomplete)
	if c.file == nil {
		return err
	}
	return finish(c.file, err, c.store.path(c.host, layer))
}
