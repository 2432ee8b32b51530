package listing

import (
	"slices"

	"slipway.dev/services/internal/limits"
)

// A selection selects the files of one page from files that are added in any order. It holds at
// most twice as many files as the page can have.
type selection struct {
	query    Query
	matching int
	files    []File
	bytes    int
	// next is the first file that is known to be on a later page; nil if no such file is known.
	next *File
}

func newSelection(q Query) *selection { return &selection{query: q} }

func (s *selection) add(f File) {
	if !s.query.matches(f) {
		return
	}
	s.matching++
	if s.query.after != nil && s.query.compare(f, *s.query.after) <= 0 || s.next != nil && s.query.compare(f, *s.next) >= 0 {
		return
	}
	s.files = append(s.files, f)
	if s.bytes += f.weight(); len(s.files) >= 2*s.query.max || s.bytes >= 2*limits.ListingPage {
		s.trim()
	}
}

// trim sorts the files and removes those beyond the page.
func (s *selection) trim() {
	slices.SortFunc(s.files, s.query.compare)
	n, bytes := 0, 0
	for n < min(len(s.files), s.query.max) && bytes+s.files[n].weight() <= limits.ListingPage {
		bytes += s.files[n].weight()
		n++
	}
	if n < len(s.files) {
		next := s.files[n]
		s.next = &next
	}
	clear(s.files[n:])
	s.files, s.bytes = s.files[:n], bytes
}

func (s *selection) page(of Summary) Page {
	s.trim()
	p := Page{Summary: of, Matching: s.matching, Files: s.files}
	if s.next != nil && len(s.files) > 0 {
		p.Next = s.files[len(s.files)-1].token()
	}
	return p
}
