package index

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"slices"

	"slipway.dev/services/internal/limits"
)

// Writer makes a file: records come in any order, and are written as they come. It
// ends with Commit or Discard. Not safe for concurrent use.
type Writer struct {
	file *os.File
	out  *behind
	path string
	off  uint64
	// ids are the names' places in list.
	ids  map[string]uint32
	list []pending
	runs []linked
	last uint32 // the name of the last run
	head []byte // of the entry that is written
	meta Meta
}

// pending is a name and its runs so far: the first and last, which are linked.
type pending struct {
	name        string
	shard       Hash
	first, last uint32
	records     int
	bytes       uint64
}

// linked is a run, and the same name's next; none is none.
type linked struct {
	run
	next uint32
}

const none = math.MaxUint32

// Create begins a file that will stand at path.
func Create(path string) (*Writer, error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return nil, fmt.Errorf("making an index: %w", err)
	}
	return &Writer{file: f, out: writeBehind(f), path: path, ids: map[string]uint32{}, last: none}, nil
}

// add takes one record. Those that nothing could be done with are counted and left out.
func (w *Writer) add(fileName, raw []byte, f facts) error {
	if !f.isRecord(fileName, raw) {
		w.meta.Skipped++
		return nil
	}
	id, err := w.id(bytes.ToLower(unquoted(f.name)))
	if err != nil {
		return err
	}
	w.meta.Records++
	if p := &w.list[id]; p.records == limits.ChannelRecordsOfName || p.bytes > limits.ChannelNameBytes || w.meta.Records > limits.ChannelRecords {
		return fmt.Errorf("it has more than %d records, or more than %d of %s", limits.ChannelRecords, limits.ChannelRecordsOfName, p.name)
	}
	w.begin(fileName, raw)
	return w.append(id, w.head, fileName, raw)
}

// begin makes the head of an entry.
func (w *Writer) begin(fileName, raw []byte) {
	w.head = binary.LittleEndian.AppendUint16(w.head[:0], uint16(len(fileName)))
	w.head = binary.LittleEndian.AppendUint32(w.head, uint32(len(raw)))
}

// id is a name's place in the list.
func (w *Writer) id(name []byte) (uint32, error) {
	if id, ok := w.ids[string(name)]; ok {
		return id, nil
	}
	if len(w.list) == limits.ChannelNames {
		return 0, fmt.Errorf("it has more than %d names", limits.ChannelNames)
	}
	id := uint32(len(w.list))
	w.list = append(w.list, pending{name: string(name), first: none, last: none})
	w.ids[w.list[id].name] = id
	return id, nil
}

// append writes one entry, as a part of the last run where that is the same name's.
func (w *Writer) append(id uint32, parts ...[]byte) error {
	p := &w.list[id]
	if w.last != id {
		if len(w.runs) == limits.ChannelRuns {
			return fmt.Errorf("its records of one name are in more than %d places", limits.ChannelRuns)
		}
		n := uint32(len(w.runs))
		w.runs = append(w.runs, linked{run{off: w.off}, none})
		if p.first == none {
			p.first = n
		} else {
			w.runs[p.last].next = n
		}
		p.last, w.last = n, id
	}
	r := &w.runs[p.last]
	for _, b := range parts {
		if _, err := w.out.Write(b); err != nil {
			return fmt.Errorf("writing an index: %w", err)
		}
		r.sum = crc32.Update(r.sum, castagnoli, b)
		r.size += uint32(len(b))
		w.off += uint64(len(b))
		p.bytes += uint64(len(b))
	}
	p.records++
	return nil
}

// Commit writes what was learnt, and puts the file in its place once it is on the
// disk: whoever opens path sees the old file or the new one, whole.
func (w *Writer) Commit(m Meta) (Meta, error) {
	m.Records, m.Skipped = w.meta.Records, w.meta.Skipped
	err := w.directory(m)
	if err == nil {
		err = w.out.close()
	}
	if err == nil {
		err = w.file.Sync()
	}
	if err == nil {
		err = os.Rename(w.file.Name(), w.path)
	}
	if err != nil {
		return Meta{}, errors.Join(fmt.Errorf("writing an index: %w", err), w.Discard())
	}
	return m, errors.Join(w.file.Close(), syncFolder(filepath.Dir(w.path)))
}

// Discard removes what was written.
func (w *Writer) Discard() error {
	_ = w.out.close() // what could not be written is not wanted
	return errors.Join(w.file.Close(), os.Remove(w.file.Name()))
}

// directory writes everything behind the data.
func (w *Writer) directory(m Meta) error {
	ids := make([]uint32, len(w.list))
	for i := range ids {
		ids[i] = uint32(i)
	}
	slices.SortFunc(ids, func(a, b uint32) int { return compare(w.list[a].name, []byte(w.list[b].name)) })
	var names, entries, runs []byte
	for _, id := range ids {
		p := w.list[id]
		entries = entry{uint32(len(names)), uint32(len(p.name)), uint32(len(runs) / runSize), p.shard}.append(entries)
		names = append(names, p.name...)
		for n := p.first; n != none; n = w.runs[n].next {
			runs = w.runs[n].append(runs)
		}
	}
	meta, err := json.Marshal(m)
	if err != nil {
		return err
	}
	f := footer{names: w.off, count: uint32(len(ids))}
	at := w.off
	for _, part := range []struct {
		begins *uint64
		data   []byte
	}{{&f.names, names}, {&f.entries, entries}, {&f.runs, runs}, {&f.meta, meta}} {
		*part.begins = at
		at += uint64(len(part.data))
		f.sum = crc32.Update(f.sum, castagnoli, part.data)
		if _, err := w.out.Write(part.data); err != nil {
			return err
		}
	}
	f.end = at
	_, err = w.out.Write(f.append(nil))
	return err
}

// syncFolder makes a rename last.
func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
