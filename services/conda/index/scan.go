package index

import (
	"errors"
	"fmt"
	"io"

	"slipway.dev/services/internal/limits"
)

// A window is a section of a stream of JSON. It grows up to the maximum size of a record.
type window struct {
	from  io.Reader
	buf   []byte
	pos   int
	ended bool
}

const windowSize = 256 << 10

// more reads more data and drops the data before pos. It fails at the end of the stream, or
// if one value fills the window.
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

// next returns the next byte that is not a space, without consuming it.
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

// take consumes the byte c.
func (w *window) take(c byte) error {
	got, err := w.next()
	if err == nil && got != c {
		err = errSyntax
	}
	w.pos++
	return err
}

// value reads one value of any type. It is valid until the next call.
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

// record reads one value and returns the facts that decide whether it is a record. Both are
// valid until the next call.
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

// each scans an object that may be larger than the window. one reads the value of each
// member; the key is valid until it returns.
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

// between scans a comma-separated list between brackets.
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

// skip skips a value that may be larger than the window.
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

// end checks that only space follows.
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

// found receives the content of a repodata file while it is scanned.
type found struct {
	// record is called with each record: its file name, its JSON as written, and its facts.
	// All are valid until it returns.
	record func(fileName, raw []byte, f facts) error
	// info is called with the JSON of "info".
	info func(raw []byte) error
}

// scan scans a repodata file (CEP 36). It ignores all members other than info and the
// records of the two package formats.
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
