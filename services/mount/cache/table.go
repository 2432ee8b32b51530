package cache

import (
	"fmt"

	"slipway.dev/services/mount/pack"
)

// tableOf returns the positions of the chunks in the compressed blob. They are not verified: the chunks are.
func (e *Environment) tableOf(d *device) (pack.Table, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.table != nil {
		return *d.table, nil
	}
	name := hexOf(d.blob.Digest)
	if name == "" {
		return pack.Table{}, fmt.Errorf("its blob has the digest %q; only sha256 is supported: %w", d.blob.Digest, ErrPermanent)
	}
	size := int64(pack.TableSize(len(d.Chunks)))
	if b, _, err := e.cache.read(size, tables, name); err == nil {
		if t, err := pack.ParseTable(b, len(d.Chunks), d.blob.Size); err == nil {
			d.table = &t
			return t, nil
		}
	}
	if size > d.blob.Size {
		return pack.Table{}, fmt.Errorf("its blob %s has only %d bytes: %w", d.blob.Digest, d.blob.Size, ErrPermanent)
	}
	end, err := e.request(d, d.blob.Size-size, d.blob.Size)
	if err != nil {
		return pack.Table{}, err
	}
	t, err := pack.ParseTable(end, len(d.Chunks), d.blob.Size)
	if err != nil {
		return pack.Table{}, fmt.Errorf("the table of %s: %w", d.blob.Digest, err)
	}
	d.table = &t
	e.cache.write(end, tables, name)
	return t, nil
}

// forgetTable makes the next request fetch the table again: that of the cache may be wrong.
func (e *Environment) forgetTable(d *device) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.table = nil
	e.cache.remove(tables, hexOf(d.blob.Digest))
}
