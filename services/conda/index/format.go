package index

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"

	"slipway.dev/services/internal/limits"
)

// The file format; all numbers are little endian:
//
//	data     entries: u16 length of the file name, u32 length of the JSON, both
//	names    concatenated, sorted, without duplicates
//	entries  for each name: its offset, its first run, the hash of its shard
//	runs     for each: offset of consecutive entries of one name, length, CRC-32C
//	meta     JSON
//	uses     for each name that records depend on, sorted: the offset and the length
//	         of the name in texts, the number of records
//	texts    the names in uses, concatenated
//	footer   offsets of names, entries, runs, meta, uses and texts, counts, their
//	         CRC-32C, magic
//
// Data comes first because it is written while the channel is read; the directory is only
// known at the end.
const (
	magic      = "slipway conda 2\n"
	footerSize = 7*8 + 4 + 4 + len(magic)
	useSize    = 4 + 4 + 4
	entrySize  = 4 + 4 + 4 + hashSize
	runSize    = 8 + 4 + 4
	headSize   = 2 + 4
	hashSize   = 32
	// metaSize limits the JSON of Meta, whose strings are limited when they are read.
	metaSize = 64 << 10
	// maxFile is the maximum size of a file, far above what limits.ChannelRepodata results
	// in.
	maxFile = 16 << 30
)

// errDamaged is returned for a file that is not an index, or was modified after it was
// written.
var errDamaged = errors.New("the index is damaged")

//nolint:gochecknoglobals // a table of constants
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A layout is the content of a file with the sections of its directory. All of it is
// mapped, so that open indexes only use memory that the kernel can reclaim. Reads can
// therefore fault; see unreadable.
type layout struct {
	mem                      []byte
	names, entries, runTable []byte
	uses, texts              []byte
	count                    int
	meta                     Meta
}

// A run is a range of consecutive entries of one name.
type run struct {
	off       uint64
	size, sum uint32
}

// A footer is the end of a file: the offsets of the six sections after the data and of the
// footer itself, and the number of names.
type footer struct {
	names, entries, runs, meta, uses, texts, end uint64
	count, sum                                   uint32
}

func (f footer) append(b []byte) []byte {
	for _, n := range []uint64{f.names, f.entries, f.runs, f.meta, f.uses, f.texts, f.end} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	b = binary.LittleEndian.AppendUint32(b, f.count)
	b = binary.LittleEndian.AppendUint32(b, f.sum)
	return append(b, magic...)
}

func parseFooter(mem []byte) (footer, error) {
	if len(mem) < footerSize || string(mem[len(mem)-len(magic):]) != magic {
		return footer{}, fmt.Errorf("%w: it has another format", errDamaged)
	}
	b := mem[len(mem)-footerSize:]
	at := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
	f := footer{at(0), at(1), at(2), at(3), at(4), at(5), at(6), binary.LittleEndian.Uint32(b[56:]), binary.LittleEndian.Uint32(b[60:])}
	if f.end != uint64(len(mem)-footerSize) || f.names > f.entries || f.entries > f.runs || f.runs > f.meta || f.meta > f.uses || f.uses > f.texts || f.texts > f.end ||
		f.count > limits.ChannelNames || f.entries-f.names > limits.ChannelNamesBytes || f.runs-f.entries != uint64(f.count)*entrySize || (f.meta-f.runs)%runSize != 0 ||
		f.meta-f.runs > limits.ChannelRuns*runSize || f.uses-f.meta > metaSize ||
		(f.texts-f.uses)%useSize != 0 || f.texts-f.uses > limits.ChannelNames*useSize || f.end-f.texts > limits.ChannelNamesBytes {
		return footer{}, fmt.Errorf("%w: its parts overlap, or are too large", errDamaged)
	}
	return f, nil
}

// parseLayout parses the directory of a file, and checks that its offsets are within the
// file.
func parseLayout(mem []byte) (layout, error) {
	f, err := parseFooter(mem)
	if err != nil {
		return layout{}, err
	}
	if crc32.Checksum(mem[f.names:f.end], castagnoli) != f.sum {
		return layout{}, fmt.Errorf("%w: its directory has another checksum", errDamaged)
	}
	l := layout{mem: mem, names: mem[f.names:f.entries], entries: mem[f.entries:f.runs], runTable: mem[f.runs:f.meta], count: int(f.count)}
	l.uses, l.texts = mem[f.uses:f.texts], mem[f.texts:f.end]
	if err := json.Unmarshal(mem[f.meta:f.uses], &l.meta); err != nil {
		return layout{}, fmt.Errorf("%w: %w", errDamaged, err)
	}
	return l, l.check(f.names)
}

// check validates names and runs: a checksum does not prove that they are valid.
func (l *layout) check(data uint64) error {
	total := uint32(len(l.runTable) / runSize)
	var before []byte
	var text, first uint32
	for i := range l.count {
		e := l.entry(i)
		if e.name != text || uint64(e.name)+uint64(e.size) > uint64(len(l.names)) || e.first < first || e.first > total {
			return fmt.Errorf("%w: the entry of name %d points elsewhere", errDamaged, i)
		}
		name := l.name(i)
		if i > 0 && bytes.Compare(before, name) >= 0 {
			return fmt.Errorf("%w: its names are not sorted", errDamaged)
		}
		before, text, first = name, text+e.size, e.first
	}
	for i := range total {
		if r := l.run(i); r.off > data || uint64(r.size) > data-r.off {
			return fmt.Errorf("%w: run %d lies outside", errDamaged, i)
		}
	}
	return l.checkUses()
}

// checkUses validates the offsets and the order of the names in uses.
func (l *layout) checkUses() error {
	var before []byte
	for i := range len(l.uses) / useSize {
		u := l.use(i)
		if uint64(u.text)+uint64(u.size) > uint64(len(l.texts)) {
			return fmt.Errorf("%w: the name of dependency %d is out of range", errDamaged, i)
		}
		name := l.texts[u.text : u.text+u.size]
		if i > 0 && bytes.Compare(before, name) >= 0 {
			return fmt.Errorf("%w: its dependencies are not sorted", errDamaged)
		}
		before = name
	}
	return nil
}

// A use is a name that records depend on: the offset and the length of the name in texts, and
// the number of records.
type use struct{ text, size, records uint32 }

func (l *layout) use(i int) use {
	b := l.uses[i*useSize:]
	return use{binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint32(b[8:])}
}

func (u use) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, u.text)
	b = binary.LittleEndian.AppendUint32(b, u.size)
	return binary.LittleEndian.AppendUint32(b, u.records)
}

// An entry is the directory's data of a name: the offset of its text, its first run (the
// next name's first run ends the list), and the digest of the shard that it came from, zero
// for none.
type entry struct {
	name, size, first uint32
	shard             Hash
}

func (l *layout) entry(i int) (e entry) {
	b := l.entries[i*entrySize:]
	e.name, e.size, e.first = binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint32(b[8:])
	copy(e.shard[:], b[12:])
	return e
}

func (e entry) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, e.name)
	b = binary.LittleEndian.AppendUint32(b, e.size)
	b = binary.LittleEndian.AppendUint32(b, e.first)
	return append(b, e.shard[:]...)
}

func (l *layout) name(i int) []byte {
	e := l.entry(i)
	return l.names[e.name : e.name+e.size]
}

// runs returns the runs of the name at index i.
func (l *layout) runs(i int) iter.Seq[run] {
	first, end := l.entry(i).first, uint32(len(l.runTable)/runSize)
	if i+1 < l.count {
		end = l.entry(i + 1).first
	}
	return func(yield func(run) bool) {
		for n := first; n < end; n++ {
			if !yield(l.run(n)) {
				return
			}
		}
	}
}

func (l *layout) run(n uint32) run {
	b := l.runTable[n*runSize:]
	return run{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint32(b[8:]), binary.LittleEndian.Uint32(b[12:])}
}

func (r run) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, r.off)
	b = binary.LittleEndian.AppendUint32(b, r.size)
	return binary.LittleEndian.AppendUint32(b, r.sum)
}

// entries calls one for each entry of a run.
func entries(data []byte, one func(fileName, raw []byte) error) error {
	for len(data) > 0 {
		if len(data) < headSize {
			return fmt.Errorf("%w: an entry is cut off", errDamaged)
		}
		fn, size := int(binary.LittleEndian.Uint16(data)), uint64(binary.LittleEndian.Uint32(data[2:]))
		if uint64(headSize+fn)+size > uint64(len(data)) {
			return fmt.Errorf("%w: an entry is cut off", errDamaged)
		}
		end := headSize + fn + int(size)
		if err := one(data[headSize:headSize+fn], data[headSize+fn:end]); err != nil {
			return err
		}
		data = data[end:]
	}
	return nil
}
