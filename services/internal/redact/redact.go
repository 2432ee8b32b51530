// Package redact removes secrets from text that operators read: logs and traces. It
// recognizes secrets by their form, wherever they occur: tokens of image names, access
// tokens, credentials in URLs, and authorization headers.
package redact

import (
	"bytes"
	"io"
	"regexp"
	"slices"
)

const (
	// visible is the number of characters of a secret that remain, so that operators can
	// distinguish two secrets.
	visible = 4
	// minLength is the length from which a run of characters of one alphabet is treated as a
	// token. Tokens have 26 characters. A truncated token must be redacted as well, because
	// the missing characters could be guessed.
	minLength = 20
	mark      = "…"
)

// credential matches all secrets except tokens of image names. Each alternative has one
// group, which is the part that remains.
var credential = regexp.MustCompile(`(?i)` +
	// Access tokens and JSON web tokens: base64 of a JSON object.
	`(eyJ[a-z0-9])[a-z0-9_+/=-]{12,}(?:\.[a-z0-9_+/=-]+)*` +
	// Parameters of URLs, by name.
	`|([?&][^=&\s"]*(?:token|code|state|password|secret|sig|credential|key|auth|session)[^=&\s"]*=)[^&\s"]+` +
	// The user and password of a URL.
	`|(https?://)[^/@\s"]+@` +
	`|\b((?:bearer|basic) )[a-z0-9._~+/=-]{16,}`)

// Text returns s without the secrets in it.
func Text(s string) string { return string(Bytes([]byte(s))) }

// Bytes returns line without the secrets in it. It returns line itself if it contains no
// secret, and never changes it.
func Bytes(line []byte) []byte { return redact(line, nil) }

// redact is Bytes with a buffer, which may hold the result.
func redact(line, buffer []byte) []byte {
	line = cutTokens(line, buffer)
	if !hasCredential(line) {
		return line
	}
	return credential.ReplaceAll(line, []byte("$1$2$3$4"+mark))
}

// hasCredential reports whether credential may match. It is cheap, and false for most
// lines: it searches for the least frequent byte of each form first.
func hasCredential(line []byte) bool {
	has := func(c byte) bool { return bytes.IndexByte(line, c) >= 0 }
	contains := func(s string) bool { return bytes.Contains(line, []byte(s)) }
	return has('J') && contains("eyJ") || has('=') && bytes.ContainsAny(line, "?&") || has('@') && contains("://") ||
		has(' ') && (contains("earer ") || contains("asic "))
}

// cutTokens shortens everything that has the form of a token. Tokens are base32, in lower or
// upper case, and may be percent-encoded. The result is line itself, or in the buffer if that is as
// long as line: a mark is shorter than what it replaces.
func cutTokens(line, buffer []byte) []byte {
	out, done := buffer[:0], 0
	for i, within := nextWord(line, 0, 0); i < len(line); i, within = nextWord(line, i, within) {
		if line[i] != '%' && classOf(line[i]) == 0 {
			i++
			continue
		}
		r := runAt(line, i)
		if r.length >= minLength && !r.isHex {
			out = append(append(slices.Grow(out, len(line)-done), line[done:r.cut]...), mark...)
			done = r.end
		}
		i = max(r.end, i+1)
	}
	if done == 0 {
		return line
	}
	return append(out, line[done:]...)
}

// nextWord returns the offset, from i on, of the first minLength bytes that may all belong to a
// token, and the offset after these bytes. If no such bytes exist, it returns the length of the
// line twice. The bytes from i to within are known to be such bytes. For most lines it reads
// only one of minLength bytes.
func nextWord(line []byte, i, within int) (start, end int) {
	for i+minLength <= len(line) {
		j := i + minLength - 1
		for j >= max(i, within) && inToken[line[j]] {
			j--
		}
		if j < max(i, within) {
			return i, i + minLength
		}
		i = j + 1
	}
	return len(line), len(line)
}

// inToken is true for the bytes that may occur in a token, percent-encoded or not.
var inToken = func() (in [256]bool) { //nolint:gochecknoglobals // a table that never changes
	for c := range in {
		in[c] = c == '%' || digit(byte(c)) >= 0 || classOf(byte(c)) != 0
	}
	return in
}()

// A run is a sequence of base32 characters of the same case.
type run struct {
	// length is the number of characters, end the offset after the last one, and cut the
	// offset after the visible ones.
	length, cut, end int
	// isHex reports whether all characters are hexadecimal digits, as in a part of a digest.
	// One in 10¹¹ tokens has this property and is not redacted.
	isHex bool
}

// runAt returns the longest run that begins at an offset.
func runAt(line []byte, i int) run {
	r := run{cut: i, end: i, isHex: true}
	for classes := class(0); i < len(line); {
		c, width := line[i], 1
		if c == '%' {
			c, width = decode(line, i)
		}
		k := classOf(c)
		if classes |= k; k == 0 || classes&(lower|upper) == lower|upper {
			break
		}
		r.isHex = r.isHex && (c|0x20 <= 'f')
		i += width
		if r.length++; r.length <= visible {
			r.cut = i
		}
		r.end = i
	}
	return r
}

// A class is one part of the base32 alphabets. Characters outside of them have class 0.
type class byte

const (
	lower class = 1 << iota
	upper
	number
)

func classOf(c byte) class {
	switch {
	case c >= 'a' && c <= 'z':
		return lower
	case c >= 'A' && c <= 'Z':
		return upper
	case c >= '2' && c <= '7':
		return number
	}
	return 0
}

// decode returns the percent-encoded character at an offset and the length of its encoding,
// which may be nested ("%2541"). It returns '%' and 1 if there is no valid encoding.
func decode(line []byte, i int) (c byte, width int) {
	at := i + 1
	for at+4 <= len(line) && line[at] == '2' && line[at+1] == '5' {
		at += 2
	}
	if at+2 > len(line) {
		return '%', 1
	}
	high, low := digit(line[at]), digit(line[at+1])
	if high < 0 || low < 0 {
		return '%', 1
	}
	return byte(high<<4 | low), at + 2 - i
}

// digit returns the value of a hexadecimal digit, or -1.
func digit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}

// maxPartialLine is the length, in bytes, from which a Writer no longer buffers an unfinished
// line.
const maxPartialLine = 64 << 10

// Writer removes secrets from lines on their way to another writer. It is not safe for
// concurrent use.
type Writer struct {
	to     io.Writer
	line   []byte // the beginning of an unfinished line
	buffer []byte // for lines with secrets
}

// NewWriter returns a Writer that writes to to. It buffers an unfinished line until its end
// is written.
func NewWriter(to io.Writer) *Writer { return &Writer{to: to} }

// Write implements io.Writer.
func (w *Writer) Write(p []byte) (int, error) {
	lines := p
	if len(w.line) > 0 {
		lines = append(w.line, p...)
		w.line = nil
	}
	end := bytes.LastIndexByte(lines, '\n') + 1
	if len(lines)-end > maxPartialLine {
		end = len(lines)
	}
	if end < len(lines) {
		w.line = bytes.Clone(lines[end:])
	}
	if end == 0 {
		return len(p), nil
	}
	w.buffer = slices.Grow(w.buffer[:0], end)
	if _, err := w.to.Write(redact(lines[:end], w.buffer)); err != nil {
		return 0, err
	}
	if cap(w.buffer) > maxPartialLine {
		w.buffer = nil
	}
	return len(p), nil
}
