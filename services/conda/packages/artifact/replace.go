package artifact

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"regexp"
	"strings"
)

// window is the size of the buffer in bytes.
const window = 64 << 10

// replacer reads a file and replaces each placeholder with the prefix. It buffers one
// window.
type replacer struct {
	in       io.Reader
	old, new []byte
	// pad preserves the length of each NUL-terminated string, and of the file.
	pad bool

	buf     []byte // unprocessed bytes
	tail    []byte // the end of buf, which may be the beginning of a placeholder
	ready   []piece
	padding int64 // NULs to add at the end of the current string
	end     error
}

// piece is ready output: bytes of buf or of new, followed by NULs.
type piece struct {
	bytes []byte
	nuls  int64
}

func newReplacer(in io.Reader, placeholder, prefix, mode string) (*replacer, error) {
	r := &replacer{in: in, old: []byte(placeholder), new: []byte(prefix), pad: mode == modeBinary}
	if r.pad && len(r.new) > len(r.old) {
		return nil, invalid("the prefix %s is longer than the one in a binary file, %s", prefix, clip(placeholder))
	}
	r.buf = make([]byte, window+len(r.old))
	return r, nil
}

// Read implements io.Reader. It fills p as far as the window goes, because prefixes are
// short, and callers may make a system call for each Read.
func (r *replacer) Read(p []byte) (int, error) {
	for len(r.ready) == 0 {
		if r.end != nil {
			return 0, r.end
		}
		r.fill()
	}
	n := 0
	for n < len(p) && len(r.ready) > 0 {
		n += r.next(p[n:])
	}
	return n, nil
}

// next copies as much of the ready output as fits.
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

// fill processes the next window. Its end is kept for the following one if it may be the
// beginning of a placeholder.
func (r *replacer) fill() {
	kept := copy(r.buf, r.tail)
	n, err := io.ReadFull(r.in, r.buf[kept:])
	if err == io.ErrUnexpectedEOF { // a wrapped error is the archive's
		err = io.EOF
	}
	data := r.buf[:kept+n]
	r.end, r.tail, r.ready = err, nil, r.ready[:0]
	for {
		i := bytes.Index(data, r.old)
		if i < 0 {
			break
		}
		r.emit(data[:i])
		r.emit(r.new)
		r.padding += int64(len(r.old) - len(r.new))
		data = data[i+len(r.old):]
	}
	if err == nil {
		end := max(0, len(data)-len(r.old)+1)
		data, r.tail = data[:end], data[end:]
	}
	r.emit(data)
	if err != nil && r.padding > 0 && r.pad {
		r.ready = append(r.ready, piece{nuls: r.padding})
	}
}

// emit adds bytes to the output. The first NUL ends the current string.
func (r *replacer) emit(b []byte) {
	if r.pad && r.padding > 0 {
		if i := bytes.IndexByte(b, 0); i >= 0 {
			r.ready = append(r.ready, piece{b[:i], r.padding})
			b, r.padding = b[i:], 0
		}
	}
	if len(b) > 0 {
		r.ready = append(r.ready, piece{bytes: b})
	}
}

// shebangLimit is the number of bytes of the first line that older kernels read.
const shebangLimit = 127

// shebang matches the first line of a script: program, then options.
var shebang = regexp.MustCompile(`^#!\s*(/(?:\\ |[^ \n\r\t])*)(.*)$`)

// shortShebang copies a text. A first line that kernels would truncate is replaced by one
// that looks its program up in PATH.
func shortShebang(out io.Writer, in io.Reader) error {
	r := bufio.NewReaderSize(in, window)
	line, err := r.ReadSlice('\n')
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
		return err
	}
	text := strings.TrimSuffix(string(line), "\n")
	if m := shebang.FindStringSubmatch(text); m != nil && len(text) > shebangLimit {
		line = []byte("#!/usr/bin/env " + m[1][strings.LastIndexByte(m[1], '/')+1:] + m[2] + string(line[len(text):]))
	}
	if _, err := out.Write(line); err != nil {
		return err
	}
	_, err = io.Copy(out, r)
	return err
}
