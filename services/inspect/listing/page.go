package listing

import (
	"slices"

	"slipway.dev/services/internal/limits"
)

// selection finds the files of one page among all that it is shown, in any order. It holds
// at most twice as many as the page can have.
type selection struct {
	query    Query
	matching int
	files    []File
	bytes    int
	// bar is the first file that is known to be on a later page; nil while there is none.
	bar *File
}

func newSelection(q Query) *selection { return &selection{query: q} }

func (s *selection) add(f File) {
	if !s.query.fits(f) {
		return
	}
	s.matching++
	if s.query.after != nil && s.query.compare(f, *s.query.after) <= 0 || s.bar != nil && s.query.compare(f, *s.bar) >= 0 {
		return
	}
	s.files = append(s.files, f)
	if s.bytes += f.weight(); len(s.files) >= 2*s.query.max || s.bytes >= 2*limits.ListingPage {
		s.cut()
	}
}

// cut leaves what fits on the page, in order.
func (s *selection) cut() {
	slices.SortFunc(s.files, s.query.compare)
	n, bytes := 0, 0
	for n < min(len(s.files), s.query.max) && bytes+s.files[n].weight() <= limits.ListingPage {
		bytes += s.files[n].weight()
		n++
	}
	if n < len(s.files) {
		bar := s.files[n]
		s.bar = &bar
	}
	clear(s.files[n:])
	s.files, s.bytes = s.files[:n], bytes
}

func (s *selection) page(of Summary) Page {
	s.cut()
	p := Page{Summary: of, Matching: s.matching, Files: s.files}
	if s.bar != nil && len(s.files) > 0 {
		p.Next = s.files[len(s.files)-1].token()
	}
	return p
}
