// Package index stores the records of a channel for one platform folder (subdir) in a file
// of its own format. The file is memory-mapped: opening it is fast, and only the parts that
// are used are read.
//
// A file is created from repodata (Build) or from shards (Writer), and replaces the
// previous file with a rename. Records are stored as the channel's JSON, validated when the
// file is created and decoded when they are read. The file is a cache: it can be deleted
// and created again from the channel. Formats: CEP 36 (repodata), CEP 16 (shards).
package index

import (
	"fmt"
	"hash/crc32"
	"os"
	"runtime"
	"runtime/debug"
	"sort"
	"time"

	"golang.org/x/sys/unix"

	"slipway.dev/services/conda/spec"
)

// A Place is where the records of a file belong. It is not stored in the file, because the
// channel's name or its mirror may change.
type Place struct {
	// Channel is the channel's name or base URL, without a login.
	Channel string
	// Subdir is the platform's folder, e.g. "linux-64".
	Subdir string
	// Folder is the URL of that folder. It ends in a slash and has no login.
	Folder string
}

// Meta describes the source of a file's content.
type Meta struct {
	// Source is the name of the channel's file, e.g. "repodata.json".
	Source string `json:"source"`
	// Snapshot is the digest of the channel's response, "sha256:<hex>". Two files with the
	// same snapshot hold the same records.
	Snapshot string `json:"snapshot"`
	// ETag and LastModified are the validators of the channel's response, "" for none.
	ETag         string `json:"etag,omitempty"`
	LastModified string `json:"lastModified,omitempty"`
	// Fetched is when the content was fetched.
	Fetched time.Time `json:"fetched"`
	// BaseURL is the channel's location of its artifacts, relative to Folder (CEP 15); ""
	// is Folder.
	BaseURL string `json:"baseUrl,omitempty"`
	// Records is the number of records. Skipped is the number of records that were omitted
	// because their name, file name or version is invalid.
	Records int `json:"records"`
	Skipped int `json:"skipped,omitempty"`
}

// An Index is an open file. It is safe for concurrent use. It remains valid while it is
// referenced, even if its file is replaced or removed, and needs no Close.
type Index struct {
	layout
	place Place
	base  string
	// past and origin are set in an index of an earlier state; see Overlay. origin keeps the
	// present file mapped.
	past, origin *Index
}

// Open maps a file. It validates the directory of names immediately, and records when they
// are read.
func Open(path string, p Place) (*Index, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening an index: %w", err)
	}
	defer func() { _ = f.Close() }() // read only
	st, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("opening an index: %w", err)
	}
	if st.Size() < int64(footerSize) || st.Size() > maxFile {
		return nil, fmt.Errorf("%w: %s has %d bytes", errDamaged, path, st.Size())
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, int(st.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping an index: %w", err)
	}
	x, err := read(mem, p)
	if err != nil {
		_ = unix.Munmap(mem) // a mapping can be unmapped
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	runtime.AddCleanup(x, func(mem []byte) {
		_ = unix.Munmap(mem) // a mapping can be unmapped
	}, mem)
	return x, nil
}

// read returns an index of the bytes of a file.
func read(mem []byte, p Place) (x *Index, err error) {
	defer unreadable(&err)()
	l, err := parseLayout(mem)
	if err != nil {
		return nil, err
	}
	base, err := artifacts(p.Folder, l.meta.BaseURL)
	if err != nil {
		return nil, err
	}
	return &Index{layout: l, place: p, base: base}, nil
}

// unreadable converts a memory fault, which a disk error in a mapped file causes, to an
// error.
func unreadable(err *error) func() {
	before := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(before)
		p := recover()
		if p == nil {
			return
		}
		fault, is := p.(interface{ Addr() uintptr })
		if !is {
			panic(p)
		}
		*err = fmt.Errorf("%w: it cannot be read at %#x", errDamaged, fault.Addr())
	}
}

// Meta describes the source of the content.
func (x *Index) Meta() Meta { return x.meta }

// Place returns where the records belong.
func (x *Index) Place() Place { return x.place }

// Size returns the size of the file in bytes.
func (x *Index) Size() int64 { return int64(len(x.mem)) }

// Len returns the number of names.
func (x *Index) Len() int { return x.count }

// Bytes returns how many bytes of the file are read for the records of a name.
func (x *Index) Bytes(name string) (n int64, err error) {
	defer runtime.KeepAlive(x)
	defer unreadable(&err)()
	if i, ok := x.find(name); ok {
		for r := range x.runs(i) {
			n += int64(r.size)
		}
	}
	if x.past != nil {
		more, err := x.past.Bytes(name)
		return n + more, err
	}
	return n, nil
}

// Records returns all records of a name, which must be in lower case, in the channel's order.
// It returns none for a name that the index lacks. If an artifact exists in both formats, only
// the ".conda" is returned.
func (x *Index) Records(name string) (_ []spec.Record, err error) {
	defer runtime.KeepAlive(x)
	defer unreadable(&err)()
	if x.past != nil {
		list, err := x.recordsWithPast(name)
		if err != nil {
			return nil, err
		}
		return list.records, nil
	}
	i, ok := x.find(name)
	if !ok {
		return nil, nil
	}
	list := newRecords(x)
	if err := x.eachEntry(i, list.add); err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	return list.records, nil
}

// eachEntry calls one with each entry of the name at position i.
func (x *Index) eachEntry(i int, one func(fileName, raw []byte) error) error {
	for r := range x.runs(i) {
		data, err := x.data(r)
		if err != nil {
			return err
		}
		if err := entries(data, one); err != nil {
			return err
		}
	}
	return nil
}

// find returns the position of a name.
func (x *Index) find(name string) (int, bool) {
	return sort.Find(x.count, func(i int) int { return compare(name, x.name(i)) })
}

func compare(a string, b []byte) int {
	switch {
	case a < string(b):
		return -1
	case a > string(b):
		return 1
	}
	return 0
}

// data returns the bytes of a run after verifying their checksum.
func (x *Index) data(r run) ([]byte, error) {
	data := x.mem[r.off : r.off+uint64(r.size)]
	if crc32.Checksum(data, castagnoli) != r.sum {
		return nil, fmt.Errorf("%w: %d bytes at %d have another checksum", errDamaged, r.size, r.off)
	}
	return data, nil
}
