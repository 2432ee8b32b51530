package artifact

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"regexp"
	"strings"
)

// window is how much of a file is looked at at a time, in bytes.
const window = 64 << 10

// replacer reads a file with every placeholder replaced by the prefix. It holds
// one window of it.
type replacer struct {
	in       io.Reader
	old, new []byte
	// pad keeps the length of each string that ends with a NUL, and of the file.
	pad bool

	buf   []byte // what is looked at
	tail  []byte // the end of it, which may be the beginning of a placeholder
	ready []piece
	owed  int64 // NULs that the current string lacks
	end   error
}

// piece is what is ready to be read: bytes of buf or of new, then NULs.
type piece struct {
	bytes []byte
	nuls  int64
}

func newReplacer(in io.Reader, placeholder, prefix, mode string) (*replacer, error) {
	r := &replacer{in: in, old: []byte(placeholder), new: []byte(prefix), pad: mode == modeBinary}
	if r.pad && len(r.new) > len(r.old) {
		return nil, bad("the prefix %s is longer than the one in a binary file, %s", prefix, clip(placeholder))
	}
	r.buf = make([]byte, window+len(r.old))
	return r, nil
}

// Read implements io.Reader. It fills p as far as a window goes: a prefix is short, and
// whoever copies may make a call to the system for each Read.
func (r *replacer) Read(p []byte) (int, error) {
	for len(r.ready) == 0 {
		if r.end != nil {
			return 0, r.end
		}
		r.look()
	}
	n := 0
	for n < len(p) && len(r.ready) > 0 {
		n += r.next(p[n:])
	}
	return n, nil
}

// next copies the first of what is ready, as far as it fits.
func (r *replacer) next(p []byte) int {
	first := &r.ready[0]
	n := copy(p, first.bytes)
	first.bytes = first.bytes[n:]
	if len(first.bytes) == 0 && first.nuls > 0 {
		zeros := int(min(int64(len(p)-n), first.nuls))
		clear(p[n : n+zeros])
		first.nuls -= int64(zeros)
		n += zeros
	}
	if len(first.bytes) == 0 && first.nuls == 0 {
		r.ready = r.ready[1:]
	}
	return n
}

// look makes the next window ready. The end of it stays for the next, as far as
// it may be the beginning of a placeholder.
func (r *replacer) look() {
	kept := copy(r.buf, r.tail)
	n, err := io.ReadFull(r.in, r.buf[kept:])
	if err == io.ErrUnexpectedEOF { // one that is wrapped is the archive's
		err = io.EOF
	}
	data := r.buf[:kept+n]
	r.end, r.tail, r.ready = err, nil, r.ready[:0]
	for {
		i := bytes.Index(data, r.old)
		if i < 0 {
			break
		}
		r.pass(data[:i])
		r.pass(r.new)
		r.owed += int64(len(r.old) - len(r.new))
		data = data[i+len(r.old):]
	}
	if err == nil {
		whole := max(0, len(data)-len(r.old)+1)
		data, r.tail = data[:whole], data[whole:]
	}
	r.pass(data)
	if err != nil && r.owed > 0 && r.pad {
		r.ready = append(r.ready, piece{nuls: r.owed})
	}
}

// pass hands bytes on; the first NUL ends the current string.
func (r *replacer) pass(b []byte) {
	if r.pad && r.owed > 0 {
		if i := bytes.IndexByte(b, 0); i >= 0 {
			r.ready = append(r.ready, piece{b[:i], r.owed})
			b, r.owed = b[i:], 0
		}
	}
	if len(b) > 0 {
		r.ready = append(r.ready, piece{bytes: b})
	}
}

// shebangMost is how much of a first line older kernels read, in bytes.
const shebangMost = 127

// shebang is the first line of a script: program, then options.
var shebang = regexp.MustCompile(`^#!\s*(/(?:\\ |[^ \n\r\t])*)(.*)$`)

// shortShebang copies a text; a first line that kernels would cut looks its
// program up in PATH.
func shortShebang(out io.Writer, in io.Reader) error {
	r := bufio.NewReaderSize(in, window)
	line, err := r.ReadSlice('\n')
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
		return err
	}
	text := strings.TrimSuffix(string(line), "\n")
	if m := shebang.FindStringSubmatch(text); m != nil && len(text) > shebangMost {
		line = []byte("#!/usr/bin/env " + m[1][strings.LastIndexByte(m[1], '/')+1:] + m[2] + string(line[len(text):]))
	}
	if _, err := out.Write(line); err != nil {
		return err
	}
	_, err = io.Copy(out, r)
	return err
}
