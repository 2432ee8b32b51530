package index

import (
	"bytes"
	"fmt"
	"reflect"
	"runtime"

	"slipway.dev/services/internal/limits"
)

// Diff calls each with the records that differ between two states of a list: the name, the
// file name, and the JSON of the record in the earlier state, which is empty if that state did
// not have it. The slices are only valid during the call. Records are equal if they decode to
// the same values, however their JSON is written. Records of unchanged names are not read:
// their checksums are compared.
func Diff(before, after *Index, each func(name, fileName, raw []byte) error) (err error) {
	defer runtime.KeepAlive(before)
	defer runtime.KeepAlive(after)
	defer unreadable(&err)()
	for i, j := 0, 0; i < before.count || j < after.count; {
		var order int
		switch {
		case i == before.count:
			order = 1
		case j == after.count:
			order = -1
		default:
			order = bytes.Compare(before.name(i), after.name(j))
		}
		switch {
		case order < 0:
			err = diffName(before.name(i), before, i, nil, 0, each)
			i++
		case order > 0:
			err = diffName(after.name(j), nil, 0, after, j, each)
			j++
		default:
			if !sameRuns(before, i, after, j) {
				err = diffName(before.name(i), before, i, after, j, each)
			}
			i, j = i+1, j+1
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sameRuns reports whether two names have records with the same lengths and checksums.
func sameRuns(before *Index, i int, after *Index, j int) bool {
	var a, b []run
	for r := range before.runs(i) {
		a = append(a, run{0, r.size, r.sum})
	}
	for r := range after.runs(j) {
		b = append(b, run{0, r.size, r.sum})
	}
	return reflect.DeepEqual(a, b)
}

// diffName compares the records of one name, at position i in before and j in after. An index
// that does not have the name must be nil.
func diffName(name []byte, before *Index, i int, after *Index, j int, each func(name, fileName, raw []byte) error) error {
	old, olds, err := before.raw(i)
	if err != nil {
		return err
	}
	now, nows, err := after.raw(j)
	if err != nil {
		return err
	}
	for _, file := range olds {
		if raw, ok := now[file]; !ok || !sameRecord(old[file], raw) {
			if err := each(name, []byte(file), old[file]); err != nil {
				return err
			}
		}
	}
	for _, file := range nows {
		if _, ok := old[file]; !ok {
			if err := each(name, []byte(file), nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// raw returns the JSON of the records of the name at position i by file name, and the file
// names in their order. A nil index has none.
func (x *Index) raw(i int) (of map[string][]byte, files []string, err error) {
	of = map[string][]byte{}
	if x == nil {
		return of, nil, nil
	}
	err = x.eachEntry(i, func(fileName, raw []byte) error {
		if _, ok := of[string(fileName)]; !ok {
			files = append(files, string(fileName))
		}
		of[string(fileName)] = raw
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("reading %s: %w", x.name(i), err)
	}
	return of, files, nil
}

// sameRecord reports whether two records decode to the same values.
func sameRecord(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	old, err := decode(a)
	if err != nil {
		return false
	}
	now, err := decode(b)
	return err == nil && reflect.DeepEqual(old, now)
}

// AddPast adds a record of an earlier state to a file for Overlay. raw is empty if that state
// did not have the record.
func (w *Writer) AddPast(name, fileName, raw []byte) error {
	id, err := w.id(name)
	if err != nil {
		return err
	}
	w.meta.Records++
	if p := &w.list[id]; p.records == limits.ChannelRecordsOfName || p.bytes > limits.ChannelNameBytes {
		return tooMuch("has changed more than %d records of one name", limits.ChannelRecordsOfName)
	}
	w.begin(fileName, raw)
	return w.append(id, w.head, fileName, raw)
}

// Overlay returns the index as it was in an earlier state. past, written with AddPast, contains
// the records that differ, as they were in that state. snapshot is the digest of that state.
// Search, Near and Dependents of the result are those of the present state.
func (x *Index) Overlay(past *Index, snapshot string) *Index {
	over := &Index{layout: x.layout, place: x.place, base: x.base, origin: x, past: past}
	over.meta.Snapshot = snapshot
	return over
}

// IsPast reports whether the index is that of an earlier state; see Overlay.
func (x *Index) IsPast() bool { return x.past != nil }

// recordsWithPast returns the records of a name in an earlier state.
func (x *Index) recordsWithPast(name string) (*records, error) {
	old, files := map[string][]byte{}, []string(nil)
	if i, ok := x.past.find(name); ok {
		var err error
		if old, files, err = x.past.raw(i); err != nil {
			return nil, err
		}
	}
	list := newRecords(x)
	if i, ok := x.find(name); ok {
		err := x.eachEntry(i, func(fileName, raw []byte) error {
			if _, differs := old[string(fileName)]; differs {
				return nil
			}
			return list.add(fileName, raw)
		})
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
	}
	for _, file := range files {
		if len(old[file]) == 0 {
			continue
		}
		if err := list.add([]byte(file), old[file]); err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
	}
	return list, nil
}
