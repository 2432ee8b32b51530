// Package listing lists the files that a layer of an image adds and removes, a page at a time. It
// reads a layer as a stream. It holds the entries of one page in memory and, if the listing is
// small enough to be cached, all of them. Layers have the format that layer.md of the OCI image
// specification describes.
package listing

import (
	"archive/tar"
	"context"
	"io"

	"slipway.dev/services/internal/layertar"
	"slipway.dev/services/internal/limits"
)

// A Summary holds the totals of a layer.
type Summary struct {
	// Entries is the number of entries of all kinds, including whiteouts.
	Entries int
	// Bytes is the total length of regular files.
	Bytes int64
}

// A Page is a part of a listing.
type Page struct {
	Summary
	// Matching is the number of entries that match the query's filter.
	Matching int
	// Files are in the query's order.
	Files []File
	// Next is the token of the next page; "" for the last page.
	Next string
}

// A Listing holds all entries of a layer. It is immutable and safe for concurrent use.
type Listing struct {
	Summary
	files  []File
	weight int
	// tooLarge reports that the files were dropped because they exceed limits.ListingKept.
	tooLarge bool
}

// Read reads a layer and returns a page and the complete listing. The listing is nil if it is too
// large to be cached (limits.ListingKept). Read returns a *layertar.LayerError if the layer is
// invalid; other errors come from the layer's Open or from ctx.
func Read(ctx context.Context, l layertar.Layer, q Query) (Page, *Listing, error) {
	all, page := &Listing{}, newSelection(q)
	in := layertar.NewReader(layertar.Limits{Bytes: limits.ListedBytes, Entries: limits.ListedEntries})
	err := in.Each(ctx, l, func(k int, h *tar.Header, _ io.Reader) error {
		f, listed, err := fileOf(h)
		if err != nil || !listed {
			return err
		}
		f.at = int32(k)
		all.add(f)
		page.add(f)
		return nil
	})
	if err != nil {
		return Page{}, nil, err
	}
	out := page.page(all.Summary)
	if all.tooLarge {
		return out, nil, nil
	}
	return out, all, nil
}

// Page returns the page that q selects.
func (l *Listing) Page(q Query) Page {
	s := newSelection(q)
	for _, f := range l.files {
		s.add(f)
	}
	return s.page(l.Summary)
}

// Weight returns the approximate memory that l uses, in bytes.
func (l *Listing) Weight() uint32 { return uint32(l.weight) + 256 }

func (l *Listing) add(f File) {
	l.Entries++
	l.Bytes += f.Size
	if l.tooLarge {
		return
	}
	if l.weight += f.weight(); l.weight > limits.ListingKept {
		l.files, l.tooLarge = nil, true
		return
	}
	l.files = append(l.files, f)
}
