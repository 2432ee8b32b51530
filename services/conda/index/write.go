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

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// A Writer creates a file. It writes records in the order in which they are added. The
// caller must call Commit or Discard. It must not be used concurrently.
type Writer struct {
	file *os.File
	out  *backgroundWriter
	path string
	off  uint64
	most uint64
	// ids maps names to their index in list.
	ids  map[string]uint32
	list []pending
	// names is the total length of all names in bytes.
	names int
	runs  []linked
	last  uint32 // the name of the last run
	head  []byte // of the entry being written
	uses  *uses
	// depends passes the dependencies of records on to uses.
	depends *backgroundWriter
	meta    Meta
}

// A pending is a name with its runs so far. first and last are the ends of their linked
// list.
type pending struct {
	name        string
	shard       Hash
	first, last uint32
	records     int
	bytes       uint64
}

// A linked is a run and the index of the next run of the same name, or none.
type linked struct {
	run
	next uint32
}

const none = math.MaxUint32

// Create starts a file that Commit moves to path.
func Create(path string) (*Writer, error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return nil, fmt.Errorf("making an index: %w", err)
	}
	u := &uses{ids: map[string]uint32{}}
	return &Writer{file: f, out: newBackgroundWriter(f), path: path, ids: map[string]uint32{}, last: none, most: limits.ChannelRepodata, uses: u, depends: newBackgroundWriter(u)}, nil
}

// Bound limits the size of all records together, in bytes.
func (w *Writer) Bound(most int64) { w.most = uint64(most) }

// add adds one record. Invalid records are counted and omitted.
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
		return tooMuch("has more than %d records, or more than %d of %s", limits.ChannelRecords, limits.ChannelRecordsOfName, fault.Quote(p.name))
	}
	if err := w.count(f.depends); err != nil {
		return err
	}
	w.begin(fileName, raw)
	return w.append(id, w.head, fileName, raw)
}

// count counts the dependencies of a record.
func (w *Writer) count(depends []byte) error {
	if len(depends) == 0 || depends[0] != '[' {
		return nil
	}
	if _, err := w.depends.Write(depends); err != nil {
		return fmt.Errorf("counting dependencies: %w", err)
	}
	return nil
}

// tooMuch returns the fault for a channel that exceeds a limit.
func tooMuch(format string, args ...any) error {
	return fault.Unavailable.Newf("The channel's list of packages "+format+"; this server reads no such list", args...)
}

// begin writes the head of an entry.
func (w *Writer) begin(fileName, raw []byte) {
	w.head = binary.LittleEndian.AppendUint16(w.head[:0], uint16(len(fileName)))
	w.head = binary.LittleEndian.AppendUint32(w.head, uint32(len(raw)))
}

// id returns the index of a name in the list, and adds the name if needed.
func (w *Writer) id(name []byte) (uint32, error) {
	if id, ok := w.ids[string(name)]; ok {
		return id, nil
	}
	if w.names += len(name); len(w.list) == limits.ChannelNames || w.names > limits.ChannelNamesBytes {
		return 0, tooMuch("has more than %d names, or names of more than %d bytes together", limits.ChannelNames, limits.ChannelNamesBytes)
	}
	id := uint32(len(w.list))
	w.list = append(w.list, pending{name: string(name), first: none, last: none})
	w.ids[w.list[id].name] = id
	return id, nil
}

// append writes one entry of a name. It extends the last run if that belongs to the same name.
func (w *Writer) append(id uint32, parts ...[]byte) error {
	if w.off > w.most {
		return tooMuch("has records of more than %d bytes together", w.most)
	}
	p := &w.list[id]
	if w.last != id {
		if len(w.runs) == limits.ChannelRuns {
			return tooMuch("has records of one name in more than %d places", limits.ChannelRuns)
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

// Commit writes the directory, syncs the file and renames it to its path. A concurrent Open
// sees either the old file or the complete new one.
func (w *Writer) Commit(m Meta) (Meta, error) {
	m, err := w.finish(m)
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

// finish writes everything after the records.
func (w *Writer) finish(m Meta) (Meta, error) {
	m.Records, m.Skipped = w.meta.Records, w.meta.Skipped
	err := w.depends.close()
	if err == nil {
		err = w.writeDirectory(m)
	}
	if err == nil {
		err = w.out.close()
	}
	return m, err
}

// Detach returns the index without storing it: its file is removed, and its disk space is
// freed when the index is no longer used.
func (w *Writer) Detach(p Place) (*Index, error) {
	_, err := w.finish(Meta{})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("writing an index: %w", err), w.Discard())
	}
	x, err := Open(w.file.Name(), p)
	return x, errors.Join(err, w.Discard())
}

// Rename moves a file within its folder, and makes that durable. An open Index of the file
// remains valid.
func Rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return fmt.Errorf("replacing an index: %w", err)
	}
	return syncFolder(filepath.Dir(to))
}

// Discard removes the unfinished file.
func (w *Writer) Discard() error {
	_, _ = w.depends.close(), w.out.close() // the data is discarded anyway
	return errors.Join(w.file.Close(), os.Remove(w.file.Name()))
}

// writeDirectory writes everything after the data.
func (w *Writer) writeDirectory(m Meta) error {
	ids := make([]uint32, len(w.list))
	for i := range ids {
		ids[i] = uint32(i)
	}
	slices.SortFunc(ids, func(a, b uint32) int { return compare(w.list[a].name, []byte(w.list[b].name)) })
	meta, err := json.Marshal(m)
	if err != nil {
		return err
	}
	out := &directory{to: w.out, at: w.off}
	f := footer{count: uint32(len(ids))}
	f.names = out.at
	for _, id := range ids {
		out.write([]byte(w.list[id].name))
	}
	f.entries = out.at
	var name, run uint32
	var b []byte
	for _, id := range ids {
		p := w.list[id]
		b = entry{name, uint32(len(p.name)), run, p.shard}.append(b[:0])
		out.write(b)
		name += uint32(len(p.name))
		for n := p.first; n != none; n = w.runs[n].next {
			run++
		}
	}
	f.runs = out.at
	for _, id := range ids {
		for n := w.list[id].first; n != none; n = w.runs[n].next {
			b = w.runs[n].append(b[:0])
			out.write(b)
		}
	}
	f.meta = out.at
	out.write(meta)
	f.uses, f.texts = w.uses.write(out)
	f.end, f.sum = out.at, out.sum
	out.write(f.append(nil))
	return out.err
}

// A directory writes the sections after the data and computes their offsets and checksum.
// It retains its first error.
type directory struct {
	to  *backgroundWriter
	at  uint64
	sum uint32
	err error
}

func (d *directory) write(p []byte) {
	if d.err == nil {
		_, d.err = d.to.Write(p)
	}
	d.at += uint64(len(p))
	d.sum = crc32.Update(d.sum, castagnoli, p)
}

// syncFolder makes a rename durable.
func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
