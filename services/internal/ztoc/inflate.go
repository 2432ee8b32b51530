package ztoc

import (
	"encoding/binary"
	"errors"
	"io"
)

// inflater decompresses a gzip stream, and knows the position of each deflate block in bits.
// The decoders of other packages do not report it.
type inflater struct {
	in       io.Reader
	consumed func(p []byte) // is called with the compressed bytes, in order and without gaps
	produced func(p []byte) error

	buffer   []byte // compressed bytes: those before next are in bits or were used
	next     int
	base     int64 // offset of buffer in the stream
	reported int   // bytes of buffer that consumed was called with
	eof      bool
	bits     uint64 // the next bits of the stream; only the lowest count are valid
	count    uint

	out     []byte // window and new output
	written int    // end of the output
	flushed int    // output that produced was called with
	total   int64  // length of all flushed output
	member  int64  // offset of the output of the current gzip member

	literals, distances, codes table
	lengths                    [286 + 30]uint8
	fixedBuilt                 bool
	fixedLiterals, fixedDist   table
}

const (
	inputSize  = 64 << 10
	outputSize = windowSize + 128<<10
	// retained is how many consumed bytes stay in the buffer, because the bits may include
	// them.
	retained = 8
	maxMatch = 258
)

var errTruncated = errors.New("it is truncated")

func newInflater(in io.Reader, consumed func([]byte), produced func([]byte) error) *inflater {
	return &inflater{in: in, consumed: consumed, produced: produced, buffer: make([]byte, 0, inputSize), out: make([]byte, outputSize)}
}

// position returns the position of the next unused bit.
func (d *inflater) position() int64 { return (d.base+int64(d.next))*8 - int64(d.count) }

// offset returns the offset of the next byte of output.
func (d *inflater) offset() int64 { return d.total + int64(d.written-d.flushed) }

// window returns the output before offset, at most windowSize bytes.
func (d *inflater) window() []byte {
	n := min(d.offset(), windowSize)
	return d.out[d.written-int(n) : d.written]
}

// fill reads more compressed bytes. At the end of the stream it does nothing.
func (d *inflater) fill() error {
	if d.eof || d.next < len(d.buffer) {
		return nil
	}
	// The bits refer to at most the last bytes before next.
	keep := min(len(d.buffer), retained)
	d.report(len(d.buffer) - keep)
	d.base += int64(len(d.buffer) - keep)
	d.reported = max(0, d.reported-(len(d.buffer)-keep))
	copy(d.buffer[:keep], d.buffer[len(d.buffer)-keep:])
	d.next = keep
	n, err := d.in.Read(d.buffer[keep:cap(d.buffer)])
	for n == 0 && err == nil {
		n, err = d.in.Read(d.buffer[keep:cap(d.buffer)])
	}
	d.buffer = d.buffer[:keep+n]
	if errors.Is(err, io.EOF) {
		d.eof = true
		err = nil
	}
	return err
}

// report calls consumed for the bytes before buffer[end].
func (d *inflater) report(end int) {
	if end > d.reported {
		d.consumed(d.buffer[d.reported:end])
		d.reported = end
	}
}

// reportTo calls consumed for the bytes before an offset of the stream, which must be in the
// buffer.
func (d *inflater) reportTo(offset int64) { d.report(int(offset - d.base)) }

// more ensures that there are at least n valid bits, n <= 32. It returns errTruncated at the end of
// the stream.
func (d *inflater) more(n uint) error {
	for d.count < n {
		if d.next == len(d.buffer) {
			if err := d.fill(); err != nil {
				return err
			}
			if d.next == len(d.buffer) {
				return errTruncated
			}
		}
		d.bits |= uint64(d.buffer[d.next]) << d.count
		d.next++
		d.count += 8
	}
	return nil
}

// take returns the next n bits.
func (d *inflater) take(n uint) (uint32, error) {
	if err := d.more(n); err != nil {
		return 0, err
	}
	v := uint32(d.bits & (1<<n - 1))
	d.drop(n)
	return v, nil
}

func (d *inflater) drop(n uint) {
	d.bits >>= n
	d.count -= n
}

// symbol decodes a symbol. It returns errTruncated if the stream ends before.
func (d *inflater) symbol(t *table) (uint32, error) {
	for {
		e := t.entries[d.bits&tableMask]
		if e&isSecond != 0 {
			e = t.entries[e>>symbolAt+uint32(d.bits>>tableBits)&(1<<(e&15)-1)]
		}
		n := uint(e & 15)
		if n != 0 && n <= d.count {
			d.drop(n)
			return e >> symbolAt, nil
		}
		if n == 0 && d.count >= maxCode {
			return 0, invalidf("its gzip stream has an invalid code")
		}
		if err := d.more(d.count/8*8 + 8); err != nil {
			return 0, err
		}
	}
}

// space flushes the output if there is not enough space for n more bytes.
func (d *inflater) space(n int) error {
	if d.written+n <= len(d.out) {
		return nil
	}
	if err := d.flush(); err != nil {
		return err
	}
	copy(d.out, d.out[d.written-windowSize:d.written])
	d.written, d.flushed = windowSize, windowSize
	return nil
}

// flush calls produced with the output.
func (d *inflater) flush() error {
	p := d.out[d.flushed:d.written]
	d.total += int64(len(p))
	d.flushed = d.written
	if len(p) == 0 {
		return nil
	}
	return d.produced(p)
}

// block decompresses a deflate block. It reports whether it is the last of the gzip member.
func (d *inflater) block() (last bool, err error) {
	header, err := d.take(3)
	if err != nil {
		return false, err
	}
	switch header >> 1 {
	case 0:
		err = d.stored()
	case 1:
		if !d.fixedBuilt {
			d.buildFixed()
		}
		err = d.compressed(&d.fixedLiterals, &d.fixedDist)
	case 2:
		if err = d.dynamic(); err == nil {
			err = d.compressed(&d.literals, &d.distances)
		}
	default:
		err = invalidf("its gzip stream has an invalid block")
	}
	return header&1 != 0, err
}

func (d *inflater) buildFixed() {
	var lengths [288]uint8
	for i := range lengths {
		switch {
		case i < 144:
			lengths[i] = 8
		case i < 256:
			lengths[i] = 9
		case i < 280:
			lengths[i] = 7
		default:
			lengths[i] = 8
		}
	}
	d.fixedLiterals.build(lengths[:], false)
	var short [32]uint8
	for i := range short {
		short[i] = 5
	}
	d.fixedDist.build(short[:], false)
	d.fixedBuilt = true
}

// align drops the bits up to the next byte.
func (d *inflater) align() {
	d.drop(d.count % 8)
	d.next -= int(d.count / 8)
	d.bits, d.count = 0, 0
}

// stored copies a stored block.
func (d *inflater) stored() error {
	d.align()
	v, err := d.take(32)
	if err != nil {
		return err
	}
	if v&0xffff != ^v>>16 {
		return invalidf("its gzip stream has a stored block with an invalid length")
	}
	d.align()
	for n := int(v & 0xffff); n > 0; {
		if err := errors.Join(d.fill(), d.space(1)); err != nil {
			return err
		}
		if d.next == len(d.buffer) {
			return errTruncated
		}
		m := copy(d.out[d.written:min(d.written+n, len(d.out))], d.buffer[d.next:])
		d.written += m
		d.next += m
		n -= m
	}
	return nil
}

// dynamic reads the codes of a block.
func (d *inflater) dynamic() error {
	v, err := d.take(14)
	if err != nil {
		return err
	}
	literals, distances, codes := int(v&31)+257, int(v>>5&31)+1, int(v>>10)+4
	if literals > 286 || distances > 30 {
		return invalidf("its gzip stream has too many codes")
	}
	order := [19]uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}
	var lengths [19]uint8
	for _, at := range order[:codes] {
		n, err := d.take(3)
		if err != nil {
			return err
		}
		lengths[at] = uint8(n)
	}
	if !d.codes.build(lengths[:], false) {
		return invalidf("its gzip stream has an invalid code")
	}
	if err := d.readLengths(d.lengths[:literals+distances]); err != nil {
		return err
	}
	if d.lengths[256] == 0 || !d.literals.build(d.lengths[:literals], true) || !d.distances.build(d.lengths[literals:literals+distances], true) {
		return invalidf("its gzip stream has an invalid code")
	}
	return nil
}

// readLengths reads the run-length encoded lengths of codes.
func (d *inflater) readLengths(out []uint8) error {
	for i := 0; i < len(out); {
		s, err := d.symbol(&d.codes)
		if err != nil {
			return err
		}
		if s < 16 {
			out[i] = uint8(s)
			i++
			continue
		}
		run := [3]struct{ bits, least uint }{{2, 3}, {3, 3}, {7, 11}}[s-16]
		extra, err := d.take(run.bits)
		if err != nil {
			return err
		}
		value, n := uint8(0), int(run.least)+int(extra)
		if s == 16 && i > 0 {
			value = out[i-1]
		}
		if s == 16 && i == 0 || i+n > len(out) {
			return invalidf("its gzip stream has an invalid repetition")
		}
		for range n {
			out[i] = value
			i++
		}
	}
	return nil
}

// extra is the base value and the number of extra bits of a length or distance code.
type extra struct {
	base uint16
	bits uint8
}

//nolint:gochecknoglobals // constant tables of RFC 1951
var (
	lengthCodes = [29]extra{
		{3, 0}, {4, 0}, {5, 0}, {6, 0}, {7, 0}, {8, 0}, {9, 0}, {10, 0}, {11, 1}, {13, 1}, {15, 1}, {17, 1}, {19, 2}, {23, 2}, {27, 2}, {31, 2},
		{35, 3}, {43, 3}, {51, 3}, {59, 3}, {67, 4}, {83, 4}, {99, 4}, {115, 4}, {131, 5}, {163, 5}, {195, 5}, {227, 5}, {258, 0},
	}
	distanceCodes = [30]extra{
		{1, 0}, {2, 0}, {3, 0}, {4, 0}, {5, 1}, {7, 1}, {9, 2}, {13, 2}, {17, 3}, {25, 3}, {33, 4}, {49, 4}, {65, 5}, {97, 5}, {129, 6}, {193, 6},
		{257, 7}, {385, 7}, {513, 8}, {769, 8}, {1025, 9}, {1537, 9}, {2049, 10}, {3073, 10}, {4097, 11}, {6145, 11}, {8193, 12}, {12289, 12}, {16385, 13}, {24577, 13},
	}
)

// compressed decompresses the content of a block.
func (d *inflater) compressed(literals, distances *table) error {
	for {
		if err := d.space(maxMatch); err != nil {
			return err
		}
		// All bits of a literal or match, at most 15+5+15+13, are loaded at once where
		// the buffer has them.
		if d.count < 48 && len(d.buffer)-d.next >= 8 {
			d.bits |= binary.LittleEndian.Uint64(d.buffer[d.next:]) << d.count
			n := (63 - d.count) / 8
			d.next += int(n)
			d.count += n * 8
			d.bits &= 1<<d.count - 1
		}
		s, err := d.symbol(literals)
		if err != nil {
			return err
		}
		switch {
		case s < 256:
			d.out[d.written] = byte(s)
			d.written++
		case s == 256:
			return nil
		default:
			if err := d.match(s-257, distances); err != nil {
				return err
			}
		}
	}
}

// match copies a match with the given length code.
func (d *inflater) match(code uint32, distances *table) error {
	if int(code) >= len(lengthCodes) {
		return invalidf("its gzip stream has an invalid length")
	}
	l := lengthCodes[code]
	more, err := d.take(uint(l.bits))
	if err != nil {
		return err
	}
	length := int(l.base) + int(more)
	if code, err = d.symbol(distances); err != nil {
		return err
	}
	if int(code) >= len(distanceCodes) {
		return invalidf("its gzip stream has an invalid distance")
	}
	l = distanceCodes[code]
	if more, err = d.take(uint(l.bits)); err != nil {
		return err
	}
	distance := int(l.base) + int(more)
	if int64(distance) > d.offset()-d.member {
		return invalidf("its gzip stream has a distance before its beginning")
	}
	from, to := d.written-distance, d.written
	d.written += length
	if distance >= length {
		copy(d.out[to:to+length], d.out[from:])
		return nil
	}
	for i := range length {
		d.out[to+i] = d.out[from+i]
	}
	return nil
}
