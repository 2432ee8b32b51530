package squashfs

import (
	"encoding/binary"
	"io"
	"sort"
)

// placed is the content of a regular file in an image. It holds no pointers. The position of its
// blocks, and the number of its fragment, are those in its part until arrange changes them.
type placed struct {
	size, start, holes uint64
	// first is the index of its first block in Writer.words, and count the number of its blocks.
	first, count uint32
	end          place
	part         uint32
}

// put places the content of a file of a part, and returns its number. Equal contents are placed
// once.
func (w *Writer) put(part int, number uint32) (uint32, error) {
	p := w.parts[part]
	f, err := p.file(number)
	if err != nil {
		return 0, err
	}
	key := w.marker.of(binary.LittleEndian.AppendUint64(f.sum[:len(f.sum):len(f.sum)], f.size))
	if same, ok := w.same.find(key); ok {
		return uint32(same), nil
	}
	id, to, err := w.files.Add()
	if err != nil {
		return 0, w.full(err)
	}
	*to = placed{size: f.size, start: f.start, holes: f.holes, count: f.count, end: f.end, part: uint32(part)}
	for i := range f.count {
		at, word, err := w.words.Add()
		if err != nil {
			return 0, w.full(err)
		}
		if i == 0 {
			to.first = at
		}
		if *word, err = p.word(f.first + i); err != nil {
			return 0, err
		}
	}
	if f.length > 0 {
		p.used.set(number)
	}
	if f.end.fragment != none {
		p.usedEnds.set(f.end.fragment)
	}
	return id, w.full(w.same.add(key, uint64(id)))
}

// A run is a number of consecutive bytes of a part that are in the image: from the position old of
// the part, at the position now of the image.
type run struct {
	from             io.ReaderAt
	old, now, length uint64
}

// arrange determines the positions of the blocks that the image has, in the order of the parts,
// from begin on. It returns them, and changes the positions of all files.
func (w *Writer) arrange(begin uint64) ([]run, error) {
	w.end = begin
	var all []run
	runs, ends := make([][]run, len(w.parts)), make([]uint32, len(w.parts))
	for i, p := range w.parts {
		ends[i] = uint32(w.fragments.Len())
		var err error
		if runs[i], err = w.runs(p); err != nil {
			return nil, err
		}
		all = append(all, runs[i]...)
	}
	w.begin = w.end
	for i := range w.files.Len() {
		f := w.files.At(uint32(i))
		if f.count > 0 {
			f.start = moved(runs[f.part], f.start)
		}
		if f.end.fragment != none {
			f.end.fragment = ends[f.part] + w.parts[f.part].usedEnds.before(f.end.fragment)
		}
	}
	return all, nil
}

// moved returns the position in the image of a position of a part.
func moved(runs []run, at uint64) uint64 {
	i := sort.Search(len(runs), func(i int) bool { return runs[i].old > at }) - 1
	if i < 0 {
		return 0 // a file of holes
	}
	return runs[i].now + at - runs[i].old
}

// runs returns the runs of a part: the blocks of its files and of file ends in the order of their
// positions. It records the blocks of file ends.
func (w *Writer) runs(p *partReader) ([]run, error) {
	m := runWriter{image: &w.image, from: p.in}
	end, more := p.usedEnds.next(0)
	// flush adds the blocks of file ends before a position.
	flush := func(before uint64) error {
		for more {
			f, err := p.fragment(end)
			if err != nil || f.start >= before {
				return err
			}
			_, to, err := w.fragments.Add()
			if err != nil {
				return w.full(err)
			}
			if err := m.add(f.start, uint64(f.word&^stored)); err != nil {
				return err
			}
			*to = fragment{m.last().now + f.start - m.last().old, f.word}
			end, more = p.usedEnds.next(end + 1)
		}
		return nil
	}
	for n, ok := p.used.next(0); ok; n, ok = p.used.next(n + 1) {
		f, err := p.file(n)
		if err != nil {
			return nil, err
		}
		if err := flush(f.start); err != nil {
			return nil, err
		}
		if err := m.add(f.start, f.length); err != nil {
			return nil, err
		}
	}
	if err := flush(p.blocks + 1); err != nil {
		return nil, err
	}
	return m.runs, nil
}

// runWriter collects runs, and joins adjacent ones.
type runWriter struct {
	image *image
	from  io.ReaderAt
	runs  []run
}

// last returns the last run.
func (m *runWriter) last() run { return m.runs[len(m.runs)-1] }

// add adds bytes of a part, which must be after those that were added before.
func (m *runWriter) add(at, length uint64) error {
	if n := len(m.runs); n > 0 {
		last := &m.runs[n-1]
		if end := last.old + last.length; at < end {
			return errBroken
		} else if at == end {
			last.length += length
			m.image.end += length
			return nil
		}
	}
	m.runs = append(m.runs, run{m.from, at, m.image.end, length})
	m.image.end += length
	return nil
}
