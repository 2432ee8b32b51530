package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
)

// pull reads the index, the manifest, the config and the layers of an image, and
// answers how many bytes they were.
func pull(ctx context.Context, image repository, layersAtOnce int) (int64, error) {
	c, err := dial(ctx, image.host)
	if err != nil {
		return 0, err
	}
	defer c.hangUp()
	_, manifest, err := image.childOn(c)
	if err != nil {
		return 0, err
	}
	if err := pullBlob(c, image, manifest.Config); err != nil {
		return 0, err
	}
	if err := pullLayers(ctx, c, image, manifest.Layers, layersAtOnce); err != nil {
		return 0, err
	}
	n := manifest.Config.Size
	for _, l := range manifest.Layers {
		n += l.Size
	}
	return n, nil
}

// pullLayers shares the layers out between connections: c and as many more as it
// takes.
func pullLayers(ctx context.Context, c *conn, image repository, layers []descriptor, atOnce int) error {
	var next atomic.Int64
	var wg sync.WaitGroup
	failed := make([]error, atOnce)
	for i := range atOnce {
		wg.Go(func() {
			mine := c
			if i > 0 {
				if mine, failed[i] = dial(ctx, image.host); failed[i] != nil {
					return
				}
				defer mine.hangUp()
			}
			for failed[i] == nil {
				n := int(next.Add(1)) - 1
				if n >= len(layers) {
					return
				}
				failed[i] = pullBlob(mine, image, layers[n])
			}
		})
	}
	wg.Wait()
	for _, err := range failed {
		if err != nil {
			return err
		}
	}
	return nil
}

func pullBlob(c *conn, image repository, d descriptor) error {
	_, n, err := c.do(image.blob(d.Digest).get(), nil)
	if err == nil && n != d.Size {
		err = fmt.Errorf("the blob %s has %d bytes, not %d", d.Digest, n, d.Size)
	}
	return err
}
