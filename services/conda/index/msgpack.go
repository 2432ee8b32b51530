package index

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
)

// errPacked is returned for invalid MessagePack.
var errPacked = errors.New("it is not MessagePack")

// repack converts MessagePack to at most most bytes of JSON, so that shards and repodata
// are read by the same code. Binary values, which are digests, become hex strings.
// Extensions, which channels do not use, and numbers that JSON cannot represent become
// null.
func repack(in []byte, most int) ([]byte, error) {
	p := packed{in: in, out: make([]byte, 0, min(2*len(in), most)), most: most}
	if err := p.value(maxDepth); err != nil {
		return nil, err
	}
	if len(p.in) > 0 {
		return nil, errPacked
	}
	return p.out, nil
}

// A packed holds the remaining input and the output so far.
type packed struct {
	in, out []byte
	most    int
}

// take reads n bytes.
func (p *packed) take(n uint64) ([]byte, error) {
	if n > uint64(len(p.in)) {
		return nil, errPacked
	}
	b := p.in[:n]
	p.in = p.in[n:]
	return b, nil
}

// uint reads an integer of the given number of bytes.
func (p *packed) uint(bytes int) (uint64, error) {
	b, err := p.take(uint64(bytes))
	if err != nil {
		return 0, err
	}
	var n uint64
	for _, c := range b {
		n = n<<8 | uint64(c)
	}
	return n, nil
}

func (p *packed) value(depth int) error {
	if depth == 0 || len(p.out) > p.most {
		return fmt.Errorf("it has more than %d bytes, or more than %d levels", p.most, maxDepth)
	}
	head, err := p.take(1)
	if err != nil {
		return err
	}
	switch c := head[0]; {
	case c < 0x80:
		p.out = strconv.AppendUint(p.out, uint64(c), 10)
		return nil
	case c < 0x90:
		return p.members(uint64(c&0x0f), depth)
	case c < 0xa0:
		return p.elements(uint64(c&0x0f), depth)
	case c < 0xc0:
		return p.text(uint64(c & 0x1f))
	case c >= 0xe0:
		p.out = strconv.AppendInt(p.out, int64(int8(c)), 10)
		return nil
	default:
		return p.long(c, depth)
	}
}

// long reads a value whose type takes the whole first byte, c. It determines the type, and the
// number of bytes of the following number or length.
func (p *packed) long(c byte, depth int) error {
	switch c {
	case 0xc0:
		return p.word("null")
	case 0xc2:
		return p.word("false")
	case 0xc3:
		return p.word("true")
	case 0xca, 0xcb, 0xcc, 0xcd, 0xce, 0xcf, 0xd0, 0xd1, 0xd2, 0xd3:
		return p.number(c)
	case 0xd4, 0xd5, 0xd6, 0xd7, 0xd8:
		return p.extension(1 << (c - 0xd4))
	}
	var width int
	of := p.text
	switch c {
	case 0xc4, 0xc5, 0xc6:
		width, of = 1<<(c-0xc4), p.digest
	case 0xc7, 0xc8, 0xc9:
		width, of = 1<<(c-0xc7), p.extension
	case 0xd9, 0xda, 0xdb:
		width = 1 << (c - 0xd9)
	case 0xdc, 0xdd:
		width, of = 2<<(c-0xdc), func(n uint64) error { return p.elements(n, depth) }
	case 0xde, 0xdf:
		width, of = 2<<(c-0xde), func(n uint64) error { return p.members(n, depth) }
	default:
		return errPacked
	}
	n, err := p.uint(width)
	if err != nil {
		return err
	}
	return of(n)
}

func (p *packed) word(s string) error {
	p.out = append(p.out, s...)
	return nil
}

func (p *packed) number(c byte) error {
	width := map[byte]int{0xca: 4, 0xcb: 8, 0xcc: 1, 0xcd: 2, 0xce: 4, 0xcf: 8, 0xd0: 1, 0xd1: 2, 0xd2: 4, 0xd3: 8}[c]
	n, err := p.uint(width)
	if err != nil {
		return err
	}
	switch {
	case c == 0xca:
		return p.float(float64(math.Float32frombits(uint32(n))))
	case c == 0xcb:
		return p.float(math.Float64frombits(n))
	case c >= 0xd0: // signed
		shift := 64 - 8*width
		p.out = strconv.AppendInt(p.out, int64(n<<shift)>>shift, 10)
	default:
		p.out = strconv.AppendUint(p.out, n, 10)
	}
	return nil
}

func (p *packed) float(f float64) error {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return p.word("null")
	}
	p.out = strconv.AppendFloat(p.out, f, 'g', -1, 64)
	return nil
}

// extension skips a value of an extension type.
func (p *packed) extension(n uint64) error {
	if _, err := p.take(n + 1); err != nil {
		return err
	}
	return p.word("null")
}

func (p *packed) text(n uint64) error {
	b, err := p.take(n)
	if err != nil {
		return err
	}
	if utf8.Valid(b) && !bytes.ContainsFunc(b, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' }) {
		p.out = append(append(append(p.out, '"'), b...), '"')
		return nil
	}
	s, err := json.Marshal(string(b))
	p.out = append(p.out, s...)
	return err
}

// digest writes n bytes in hex.
func (p *packed) digest(n uint64) error {
	b, err := p.take(n)
	if err != nil {
		return err
	}
	p.out = append(hex.AppendEncode(append(p.out, '"'), b), '"')
	return nil
}

func (p *packed) elements(n uint64, depth int) error {
	p.out = append(p.out, '[')
	for i := range n {
		if i > 0 {
			p.out = append(p.out, ',')
		}
		if err := p.value(depth - 1); err != nil {
			return err
		}
	}
	p.out = append(p.out, ']')
	return nil
}

// members writes a map, whose keys must be strings.
func (p *packed) members(n uint64, depth int) error {
	p.out = append(p.out, '{')
	for i := range n {
		if i > 0 {
			p.out = append(p.out, ',')
		}
		from := len(p.out)
		if err := p.value(1); err != nil {
			return err
		}
		if p.out[from] != '"' {
			return errPacked
		}
		p.out = append(p.out, ':')
		if err := p.value(depth - 1); err != nil {
			return err
		}
	}
	p.out = append(p.out, '}')
	return nil
}

// hashOf parses a digest in hex.
func hashOf(text string) (h [hashSize]byte, err error) {
	if n, err := hex.Decode(h[:], []byte(text[:min(len(text), 2*hashSize)])); err != nil || n != hashSize || len(text) != 2*hashSize {
		return h, errors.New("the digest of a shard is not a SHA-256")
	}
	return h, nil
}
