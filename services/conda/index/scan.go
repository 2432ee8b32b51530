package index

import (
	"errors"
	"fmt"
	"io"

	"slipway.dev/services/internal/limits"
)

// window is a stretch of a stream of JSON. It grows no larger than one record may be.
type window struct {
	from  io.Reader
	buf   []byte
	pos   int
	ended bool
}

const windowSize = 256 << 10

// more reads on. What is before pos is dropped. It fails where nothing comes any more,
// or where one value fills the window.
func (w *window) more() error {
	if w.ended {
		return errShort
	}
	if w.pos == 0 && len(w.buf) >= limits.ChannelRecord {
		return fmt.Errorf("one of its values has more than %d bytes", limits.ChannelRecord)
	}
	rest := copy(w.buf, w.buf[w.pos:])
	w.buf, w.pos = w.buf[:rest], 0
	if free := max(windowSize, rest); cap(w.buf)-rest < free {
		w.buf = append(make([]byte, 0, rest+free), w.buf...)
	}
	n, err := io.ReadAtLeast(w.from, w.buf[rest:cap(w.buf)], 1)
	w.buf = w.buf[:rest+n]
	switch {
	case errors.Is(err, io.EOF):
		w.ended = true
		return nil
	case err != nil:
		return fmt.Errorf("reading it: %w", err)
	}
	return nil
}

// next is the next byte that is no space. It stays where it is.
func (w *window) next() (byte, error) {
	for {
		if w.pos = space(w.buf, w.pos); w.pos < len(w.buf) {
			return w.buf[w.pos], nil
		}
		if err := w.more(); err != nil {
			return 0, err
		}
	}
}

// take reads the byte c.
func (w *window) take(c byte) error {
	got, err := w.next()
	if err == nil && got != c {
		err = errSyntax
	}
	w.pos++
	return err
}

// value reads a value of any kind, whole. It is valid until the next call.
func (w *window) value(depth int) ([]byte, error) {
	if _, err := w.next(); err != nil {
		return nil, err
	}
	for {
		end, err := value(w.buf, w.pos, depth)
		if err == nil {
			v := w.buf[w.pos:end]
			w.pos = end
			return v, nil
		}
		if !errors.Is(err, errShort) {
			return nil, err
		}
		if err := w.more(); err != nil {
			return nil, err
		}
	}
}

// record reads a value, whole, and finds what decides about a record on the way. Both
// are valid until the next call.
func (w *window) record() (raw []byte, found facts, err error) {
	c, err := w.next()
	for err == nil && c == '{' {
		found = facts{}
		end, short := object(w.buf, w.pos, maxDepth, found.take)
		if short == nil {
			raw, w.pos = w.buf[w.pos:end], end
			return raw, found, nil
		}
		if err = short; errors.Is(short, errShort) {
			err = w.more()
		}
	}
	if err == nil {
		raw, err = w.value(maxDepth)
	}
	return raw, facts{}, err
}

// each goes through an object that may be larger than the window. one reads the value
// of each member; the key is valid until it returns.
func (w *window) each(one func(key []byte) error) error {
	var key []byte
	return w.between('{', '}', func() error {
		v, err := w.value(1)
		if err != nil {
			return err
		}
		key = append(key[:0], v...)
		if key[0] != '"' {
			return errSyntax
		}
		if err := w.take(':'); err != nil {
			return err
		}
		return one(key[1 : len(key)-1])
	})
}

// between goes through what stands between brackets and commas.
func (w *window) between(opening, closing byte, one func() error) error {
	if err := w.take(opening); err != nil {
		return err
	}
	if c, err := w.next(); err != nil {
		return err
	} else if c == closing {
		w.pos++
		return nil
	}
	for {
		if err := one(); err != nil {
			return err
		}
		c, err := w.next()
		if err != nil {
			return err
		}
		w.pos++
		if c == closing {
			return nil
		}
		if c != ',' {
			return errSyntax
		}
	}
}

// skip goes past a value that may be larger than the window.
func (w *window) skip(depth int) error {
	c, err := w.next()
	if err != nil {
		return err
	}
	switch {
	case depth == 0:
		return fmt.Errorf("its values are nested deeper than %d", maxDepth)
	case c == '{':
		return w.each(func([]byte) error { return w.skip(depth - 1) })
	case c == '[':
		return w.between('[', ']', func() error { return w.skip(depth - 1) })
	}
	_, err = w.value(1)
	return err
}

// end makes sure that nothing follows.
func (w *window) end() error {
	_, err := w.next()
	switch {
	case errors.Is(err, errShort):
		return nil
	case err != nil:
		return err
	}
	return errSyntax
}

// found is what a repodata file tells while it is scanned.
type found struct {
	// record gets each record: its file name, its JSON as written, and facts of it. All
	// are valid until it returns.
	record func(fileName, raw []byte, f facts) error
	// info gets the JSON of "info".
	info func(raw []byte) error
}

// scan reads a repodata file (CEP 36). What other formats than the first two have
// beside their records is left out.
func scan(r io.Reader, f found) error {
	w := &window{from: r}
	err := w.each(func(key []byte) error {
		c, err := w.next()
		switch {
		case err != nil:
			return err
		case c == '{' && (string(key) == "packages" || string(key) == "packages.conda"):
			return w.each(func(fileName []byte) error {
				raw, facts, err := w.record()
				if err != nil {
					return err
				}
				return f.record(fileName, raw, facts)
			})
		case c == '{' && string(key) == "info":
			raw, err := w.value(maxDepth)
			if err != nil {
				return err
			}
			return f.info(raw)
		}
		return w.skip(maxDepth)
	})
	if err == nil {
		err = w.end()
	}
	return err
}
