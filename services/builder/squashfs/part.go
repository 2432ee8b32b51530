package squashfs

import (
	"archive/tar"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"math"
	"math/bits"
	"path"

	"golang.org/x/sync/errgroup"

	"slipway.dev/services/builder/arena"
)

// A part has the contents of the files of one layer as an image stores them, and the headers of its
// entries. It does not depend on other layers, so that it is made once, and images of all layers
// that share it copy its blocks:
//
//	blocks     the stored blocks: those of each file are consecutive
//	files      a record of fileSize bytes for each regular file
//	words      4 bytes for each block of a file: its stored length, or 0 for a hole
//	fragments  a record of fragmentSize bytes for each block of file ends
//	listing    a tar of all entries, compressed with zstd; the content of a regular file is its number
//	footer     the lengths of these sections, the SHA-256 of the blocks, and the CRC-32C of all bytes before it
const (
	fileSize     = 80
	fragmentSize = 12
	wordSize     = 4
	footerSize   = 112
	numberSize   = 4
	sumSize      = 4
	partMagic    = "SLIPPART"
)

// partVersion is the version of the format of parts, and of the layout of their blocks.
const partVersion = 2

// maxPartFiles limits the records of a part, whose numbers have 32 bits.
const maxPartFiles = math.MaxUint32 >> 1

var errBroken = errors.New("the part of a layer is malformed")

// Content is the total size of a part's layer.
type Content struct {
	// Bytes is the length of its files, and Entries the number of its entries.
	Bytes, Entries int64
}

// WritePart writes the part of a layer, whose entries fill adds. It returns the length of the part
// in bytes. The same entries produce the same bytes with any number of workers. The argument memory
// limits the memory for records and headers; nil means no limit. After an error, which is a *Refusal
// or an error of fill, out or ctx, the output must be discarded. No goroutine of WritePart outlives
// it.
func WritePart(ctx context.Context, out io.Writer, c *Compressor, budget *arena.Budget, fill func(*PartWriter) error) (int64, error) {
	group, ctx := errgroup.WithContext(ctx)
	memory := arena.New(budget)
	defer memory.Close()
	sum := newSum()
	out = io.MultiWriter(out, sum)
	w := &PartWriter{ctx: ctx, compressor: c, budget: budget, files: arena.NewTable[file](memory), listing: newHeaders(c, memory)}
	w.lane = newLane(ctx, group, c, memory, out, w.full)
	err := fill(w)
	w.flushFragment()
	w.lane.close()
	if failed := group.Wait(); failed != nil { // the reason why fill was stopped
		err = failed
	}
	if err != nil {
		return 0, err
	}
	return w.finish(out, sum)
}

func newSum() hash.Hash32 { return crc32.New(crc32.MakeTable(crc32.Castagnoli)) }

// PartWriter receives the entries of a layer in their order. It must be used by one goroutine only.
type PartWriter struct {
	ctx        context.Context //nolint:containedctx // for the time of one part
	compressor *Compressor
	budget     *arena.Budget
	files      *arena.Table[file]
	listing    *headers
	content    Content
	// tables is the memory in bytes that the entries take in an image at least.
	tables int64

	lane *lane
	// fragment is the current block of file ends, or nil.
	fragment  *block
	fragments uint32
	scratch   []byte
}

// full converts an exceeded budget to a refusal, and returns other errors unchanged.
func (w *PartWriter) full(err error) error { return full(err, w.budget) }

// Add adds an entry. The content of a regular file is read up to the header's size; other entries
// have none.
func (w *PartWriter) Add(h *tar.Header, content io.Reader) error {
	if w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	w.content.Entries++
	if err := w.charge(h); err != nil {
		return err
	}
	if h.Typeflag != tar.TypeReg {
		return w.full(w.listing.add(h, nil))
	}
	if h.Size < 0 {
		return refuse("%s has no length", quoted(h.Name))
	}
	number, f, err := w.files.Add()
	if err != nil {
		return w.full(err)
	}
	if number >= maxPartFiles {
		return refuse("a layer has more than %d files", maxPartFiles)
	}
	if err := w.read(f, h.Size, content); err != nil {
		return err
	}
	w.content.Bytes += h.Size
	short := *h
	short.Size = numberSize
	return w.full(w.listing.add(&short, binary.LittleEndian.AppendUint32(nil, number)))
}

// entryTables is what an entry takes in the tables of an image, in bytes, without its texts.
const entryTables = 100

// charge returns an error if the entries take more memory in an image than the budget has. So a layer
// of which no image can be made is not read further.
func (w *PartWriter) charge(h *tar.Header) error {
	w.tables += entryTables + int64(len(path.Base(h.Name))+len(h.Linkname))
	for key, value := range h.PAXRecords {
		w.tables += int64(len(key) + len(value))
	}
	if w.budget != nil && w.budget.Limit() > 0 && w.tables > w.budget.Limit() {
		return tooMany(w.budget)
	}
	return nil
}

// finish writes what follows the blocks.
func (w *PartWriter) finish(out io.Writer, sum hash.Hash32) (int64, error) {
	if err := w.listing.close(); err != nil {
		return 0, w.full(err)
	}
	le, end := binary.LittleEndian, &counter{out: out}
	piece := make([]byte, 0, 64<<10)
	put := func() {
		if len(piece) > cap(piece)-fileSize {
			_, _ = end.Write(piece) // it remembers its error
			piece = piece[:0]
		}
	}
	for i := range w.files.Len() {
		piece = w.files.At(uint32(i)).encode(piece)
		put()
	}
	for i := range w.lane.words.Len() {
		piece = le.AppendUint32(piece, *w.lane.words.At(uint32(i)))
		put()
	}
	for i := range w.lane.fragments.Len() {
		f := w.lane.fragments.At(uint32(i))
		piece = le.AppendUint32(le.AppendUint64(piece, f.start), f.word)
		put()
	}
	_, _ = end.Write(piece)
	if end.err == nil {
		_, _ = w.listing.packed.WriteTo(end)
	}
	id, _ := w.compressor.id()
	foot := append([]byte(partMagic), partVersion, byte(id), byte(w.compressor.Level), 0)
	for _, n := range []int64{
		int64(w.lane.end), int64(w.files.Len()), int64(w.lane.words.Len()), int64(w.lane.fragments.Len()),
		w.listing.packed.Len(), w.listing.length, w.content.Bytes, w.content.Entries,
	} {
		foot = le.AppendUint64(foot, uint64(n))
	}
	foot = w.lane.stored.Sum(foot)
	_, _ = end.Write(foot)
	_, _ = end.Write(le.AppendUint32(nil, sum.Sum32()))
	if end.err != nil {
		return 0, fmt.Errorf("writing the part of a layer: %w", end.err)
	}
	return int64(w.lane.end) + end.n, nil
}

// encode appends the record of a file.
func (f *file) encode(to []byte) []byte {
	le := binary.LittleEndian
	for _, n := range []uint64{f.size, f.start, f.length, f.holes} {
		to = le.AppendUint64(to, n)
	}
	for _, n := range []uint32{f.first, f.count, f.end.fragment, f.end.offset} {
		to = le.AppendUint32(to, n)
	}
	return append(to, f.sum[:]...)
}

// counter counts written bytes, and remembers its first error.
type counter struct {
	out io.Writer
	n   int64
	err error
}

func (c *counter) Write(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.out.Write(p)
	c.n += int64(n)
	c.err = err
	return n, err
}

// A Part reads a part. It is safe for concurrent use.
type Part struct {
	in io.ReaderAt
	Content
	compressor [2]byte // id and level
	blocks     uint64  // length of the blocks
	files, words, fragments,
	listing section
	raw    int64 // length of the listing before compression
	length int64 // without the checksum
	sum    uint32
	// blocksSum is the SHA-256 of the blocks.
	blocksSum [32]byte
}

// section is a section of a part: its position, and its number of records.
type section struct{ at, count int64 }

// OpenPart opens a part of size bytes. All positions are verified when they are used, so that a
// malformed part never causes more than an error, or an image that cannot be read.
func OpenPart(in io.ReaderAt, size int64) (*Part, error) {
	var foot [footerSize]byte
	if size < footerSize {
		return nil, errBroken
	}
	if _, err := in.ReadAt(foot[:], size-footerSize); err != nil {
		return nil, fmt.Errorf("reading the part of a layer: %w", err)
	}
	if string(foot[:8]) != partMagic || foot[8] != partVersion {
		return nil, errBroken
	}
	var n [8]int64
	for i := range n {
		n[i] = int64(binary.LittleEndian.Uint64(foot[12+8*i:]))
		if n[i] < 0 || n[i] > math.MaxInt64/fileSize/4 {
			return nil, errBroken
		}
	}
	p := &Part{in: in, Content: Content{n[6], n[7]}, compressor: [2]byte{foot[9], foot[10]}, blocks: uint64(n[0]), raw: n[5], sum: binary.LittleEndian.Uint32(foot[footerSize-sumSize:]), length: size - sumSize, blocksSum: [32]byte(foot[12+8*len(n):])}
	at := n[0]
	for _, s := range []struct {
		to    *section
		count int64
		width int64
	}{{&p.files, n[1], fileSize}, {&p.words, n[2], wordSize}, {&p.fragments, n[3], fragmentSize}, {&p.listing, n[4], 1}} {
		*s.to = section{at, s.count}
		at += s.count * s.width
	}
	if at != size-footerSize || p.files.count > maxPartFiles || p.words.count > math.MaxUint32 || p.fragments.count > maxPartFiles {
		return nil, errBroken
	}
	return p, nil
}

// Check reads the whole part, and returns an error if it is not as it was written.
func (p *Part) Check() error {
	sum := newSum()
	if _, err := io.CopyBuffer(sum, struct{ io.Reader }{io.NewSectionReader(p.in, 0, p.length)}, make([]byte, 256<<10)); err != nil {
		return fmt.Errorf("reading the part of a layer: %w", err)
	}
	if sum.Sum32() != p.sum {
		return errBroken
	}
	return nil
}

// Blocks returns the stored blocks, which are at the beginning of the part, and their SHA-256.
func (p *Part) Blocks() (blocks *io.SectionReader, sum [32]byte) {
	return io.NewSectionReader(p.in, 0, int64(p.blocks)), p.blocksSum
}

// File returns the file that the part is read from, of which images have ranges.
func (p *Part) File() io.ReaderAt { return p.in }

// Listing returns the tar of all entries, compressed with zstd, and its length before compression
// in bytes. The content of a regular file is 4 bytes, the number that Writer.Add needs.
func (p *Part) Listing() (r *io.SectionReader, length int64) {
	return io.NewSectionReader(p.in, p.listing.at, p.listing.count), p.raw
}

// partReader reads the records of a part in about their order.
type partReader struct {
	*Part
	used     bits64 // numbers of files
	usedEnds bits64 // numbers of blocks of file ends
	// The windows are for files, and for words and fragments.
	first, second window
}

func newPartReader(p *Part) *partReader {
	return &partReader{Part: p, first: window{in: p.in}, second: window{in: p.in}, used: newBits(p.files.count), usedEnds: newBits(p.fragments.count)}
}

// file returns the record of a file.
func (r *partReader) file(number uint32) (f file, err error) {
	if int64(number) >= r.files.count {
		return f, errBroken
	}
	b, err := r.first.at(r.files.at+int64(number)*fileSize, fileSize)
	if err != nil {
		return f, err
	}
	le := binary.LittleEndian
	f = file{
		size: le.Uint64(b), start: le.Uint64(b[8:]), length: le.Uint64(b[16:]), holes: le.Uint64(b[24:]),
		first: le.Uint32(b[32:]), count: le.Uint32(b[36:]), end: place{le.Uint32(b[40:]), le.Uint32(b[44:])}, sum: [32]byte(b[48:]),
	}
	blocks, rest := f.size/blockSize, f.size%blockSize
	hasEnd := rest > 0 && f.end.fragment != none
	if rest > 0 && !hasEnd {
		blocks++ // a hole
	}
	if f.size > math.MaxInt64 || uint64(f.count) != blocks || f.start > r.blocks || f.length > r.blocks-f.start || f.holes > f.size ||
		int64(f.first)+int64(f.count) > r.words.count || !hasEnd && f.end.fragment != none ||
		hasEnd && (int64(f.end.fragment) >= r.fragments.count || uint64(f.end.offset)+rest > blockSize) {
		return f, errBroken
	}
	return f, nil
}

// word returns the stored length of a block of a file.
func (r *partReader) word(n uint32) (uint32, error) {
	b, err := r.second.at(r.words.at+int64(n)*wordSize, wordSize)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(b), nil
}

// fragment returns the position of a block of file ends, and its stored length.
func (r *partReader) fragment(n uint32) (f fragment, err error) {
	b, err := r.second.at(r.fragments.at+int64(n)*fragmentSize, fragmentSize)
	if err != nil {
		return f, err
	}
	f = fragment{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint32(b[8:])}
	if f.start > r.blocks || uint64(f.word&^stored) > r.blocks-f.start {
		return f, errBroken
	}
	return f, nil
}

// window reads short records through a buffer.
type window struct {
	in    io.ReaderAt
	buf   []byte
	begin int64
}

// windowSize is the number of bytes that are read together.
const windowSize = 32 << 10

// at returns n bytes of a position, which are valid until the next call.
func (w *window) at(pos int64, n int) ([]byte, error) {
	if i := pos - w.begin; i >= 0 && i+int64(n) <= int64(len(w.buf)) {
		return w.buf[i : i+int64(n)], nil
	}
	if w.buf == nil {
		w.buf = make([]byte, 0, windowSize)
	}
	got, err := w.in.ReadAt(w.buf[:windowSize], pos)
	w.begin, w.buf = pos, w.buf[:got]
	if got < n {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("reading the part of a layer: %w", err)
	}
	return w.buf[:n], nil
}

// bits64 is a set of numbers.
type bits64 []uint64

func newBits(n int64) bits64 { return make(bits64, (n+63)/64) }

func (b bits64) set(i uint32) { b[i/64] |= 1 << (i % 64) }

// next returns the first number of the set that is at least i; ok is false after the last one.
func (b bits64) next(i uint32) (n uint32, ok bool) {
	for w := int(i / 64); w < len(b); w++ {
		word := b[w]
		if w == int(i/64) {
			word &= ^uint64(0) << (i % 64)
		}
		if word != 0 {
			return uint32(w*64 + bits.TrailingZeros64(word)), true
		}
	}
	return 0, false
}

// before returns how many numbers of the set are less than i.
func (b bits64) before(i uint32) uint32 {
	n := 0
	for _, word := range b[:i/64] {
		n += bits.OnesCount64(word)
	}
	return uint32(n + bits.OnesCount64(b[i/64]&(1<<(i%64)-1)))
}
