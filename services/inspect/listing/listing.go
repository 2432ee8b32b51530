// Package listing says what a layer of an image adds and removes, a page at a time. It
// reads a layer as a stream: in memory are the names of one page and, of a layer that is
// small enough to be remembered, those of all. The truth is the OCI image specification's
// layer.md.
package listing

import (
	"archive/tar"
	"context"
	"io"

	"slipway.dev/services/internal/layertar"
	"slipway.dev/services/internal/limits"
)

// Summary is what a layer has in all.
type Summary struct {
	// Entries counts files, directories and whatever else, with what is removed.
	Entries int
	// Bytes is the length of its files.
	Bytes int64
}

// Page is a part of a listing.
type Page struct {
	Summary
	// Matching counts the entries that fit the query's filter.
	Matching int
	// Files are in the query's order.
	Files []File
	// Next is the token of the page that follows; "" on the last one.
	Next string
}

// Listing is all that a layer adds and removes. It does not change; safe for concurrent
// use.
type Listing struct {
	Summary
	files  []File
	weight int
	// cut says that it is not all, because there is too much.
	cut bool
}

// Read reads a layer and returns the page that is asked for, and the whole listing; nil
// where that is too long to be kept (limits.ListingKept). A *layertar.Refusal is the
// layer's fault; other errors are those of the layer's Open, or of ctx.
func Read(ctx context.Context, l layertar.Layer, q Query) (Page, *Listing, error) {
	all, page := &Listing{}, newSelection(q)
	in := layertar.NewReader(layertar.Limits{Bytes: limits.ListedBytes, Entries: limits.ListedEntries})
	err := in.Each(ctx, l, func(k int, h *tar.Header, _ io.Reader) error {
		f, shown, err := fileOf(h)
		if err != nil || !shown {
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
	if all.cut {
		return out, nil, nil
	}
	return out, all, nil
}

// Page returns a part of the listing.
func (l *Listing) Page(q Query) Page {
	s := newSelection(q)
	for _, f := range l.files {
		s.add(f)
	}
	return s.page(l.Summary)
}

// Weight is how much memory it takes, in bytes, about.
func (l *Listing) Weight() uint32 { return uint32(l.weight) + 256 }

func (l *Listing) add(f File) {
	l.Entries++
	l.Bytes += f.Size
	if l.cut {
		return
	}
	if l.weight += f.weight(); l.weight > limits.ListingKept {
		l.files, l.cut = nil, true
		return
	}
	l.files = append(l.files, f)
}
