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

// A file, all numbers little endian:
//
//	data     entries: u16 length of the file name, u32 length of the JSON, both
//	names    one after the other, sorted, each once
//	entries  for each name: where it is, its first run, the hash of its shard
//	runs     for each: where a stretch of entries of one name is, its length, its CRC-32C
//	meta     JSON
//	footer   where names, entries, runs and meta begin, how many, their CRC-32C, magic
//
// Data comes first because it is written while the channel is read; what there is is
// known at the end.
const (
	magic      = "slipway conda 1\n"
	footerSize = 5*8 + 4 + 4 + len(magic)
	entrySize  = 4 + 4 + 4 + hashSize
	runSize    = 8 + 4 + 4
	headSize   = 2 + 4
	hashSize   = 32
	// maxFile is what a file may have, far above what limits.ChannelRepodata leads to.
	maxFile = 16 << 30
)

// errDamaged says that a file is none of ours, or is no longer what was written.
var errDamaged = errors.New("the index is damaged")

//nolint:gochecknoglobals // a table of constants
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// layout is a file's bytes, and its directory.
type layout struct {
	mem                      []byte
	names, entries, runTable []byte
	count                    int
	meta                     Meta
}

// run is a stretch of entries of one name.
type run struct {
	off       uint64
	size, sum uint32
}

// footer is the end of a file: where the four parts behind the data begin, where the
// footer does, and how many names there are.
type footer struct {
	names, entries, runs, meta, end uint64
	count, sum                      uint32
}

func (f footer) append(b []byte) []byte {
	for _, n := range []uint64{f.names, f.entries, f.runs, f.meta, f.end} {
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
	f := footer{at(0), at(1), at(2), at(3), at(4), binary.LittleEndian.Uint32(b[40:]), binary.LittleEndian.Uint32(b[44:])}
	if f.end != uint64(len(mem)-footerSize) || f.names > f.entries || f.entries > f.runs || f.runs > f.meta || f.meta > f.end ||
		f.count > limits.ChannelNames || f.runs-f.entries != uint64(f.count)*entrySize || (f.meta-f.runs)%runSize != 0 {
		return footer{}, fmt.Errorf("%w: its parts overlap", errDamaged)
	}
	return f, nil
}

// parseLayout reads the directory of a file, and checks that everything it points at
// is there.
func parseLayout(mem []byte) (layout, error) {
	f, err := parseFooter(mem)
	if err != nil {
		return layout{}, err
	}
	if crc32.Checksum(mem[f.names:f.end], castagnoli) != f.sum {
		return layout{}, fmt.Errorf("%w: its directory has another checksum", errDamaged)
	}
	// The directory is a copy: it is small, it is needed all the time, and memory that
	// is no file's cannot fail.
	dir := bytes.Clone(mem[f.names:f.meta])
	entries, runs := f.entries-f.names, f.runs-f.names
	l := layout{mem: mem, names: dir[:entries], entries: dir[entries:runs], runTable: dir[runs:], count: int(f.count)}
	if err := json.Unmarshal(mem[f.meta:f.end], &l.meta); err != nil {
		return layout{}, fmt.Errorf("%w: %w", errDamaged, err)
	}
	return l, l.check(f.names)
}

// check goes through names and runs once: a checksum is no proof of sense.
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
	return nil
}

// entry is what the directory says of a name: where its text is, which run is its
// first (the next name's first ends them), and the digest of the shard that it is
// from, zero for none.
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

// runs are those of the name at i.
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

// entries goes through the entries of a run.
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
