// Package index keeps what a channel has for one platform folder (subdir) in a file
// of its own format, which is mapped into memory: opened at once, and read only where
// somebody looks.
//
// A file is made of repodata (Build) or of shards (Writer), whole, and replaces the one
// before it by a rename. What is written is what the channel said: each record is its
// JSON, checked when the file is made and decoded when it is asked for. The truth is
// the channel; a file can be thrown away and made again. Formats: CEP 36 (repodata),
// CEP 16 (shards).
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

	"slipway.dev/services/internal/conda"
)

// Place is where the records of a file belong. It is no part of the file: a channel
// may be called otherwise, or come from a mirror, tomorrow.
type Place struct {
	// Channel is the channel's name or base URL, without a login.
	Channel string
	// Subdir is the platform's folder, e.g. "linux-64".
	Subdir string
	// Folder is the URL of that folder, which ends in a slash, without a login.
	Folder string
}

// Meta says where a file's content is from.
type Meta struct {
	// Source is the name of the channel's file: "repodata.json" and the like.
	Source string `json:"source"`
	// Snapshot is the digest of what the channel sent, "sha256:<hex>": two files with
	// one snapshot hold the same records.
	Snapshot string `json:"snapshot"`
	// ETag and LastModified are the validators of the channel's answer, "" for none.
	ETag         string `json:"etag,omitempty"`
	LastModified string `json:"lastModified,omitempty"`
	// Fetched is when the content was fetched.
	Fetched time.Time `json:"fetched"`
	// BaseURL is where the channel says that its artifacts are, relative to Folder (CEP
	// 15); "" is Folder.
	BaseURL string `json:"baseUrl,omitempty"`
	// Records is how many there are; Skipped how many were left out because no record
	// has a name, a file name or a version like theirs.
	Records int `json:"records"`
	Skipped int `json:"skipped,omitempty"`
}

// Index is an open file. Safe for concurrent use. It stays valid, also when its file
// was replaced or removed, for as long as somebody holds it; nobody closes it.
type Index struct {
	layout
	place Place
	base  string
}

// Open maps a file. What it holds is checked before it is believed: the directory of
// names now, records as they are read.
func Open(path string, p Place) (*Index, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening an index: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
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
		_ = unix.Munmap(mem) // it was mapped, so it can be unmapped
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	runtime.AddCleanup(x, func(mem []byte) {
		_ = unix.Munmap(mem) // it was mapped, so it can be unmapped
	}, mem)
	return x, nil
}

// read makes an index of the bytes of a file.
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

// unreadable turns a fault of the memory, which is what a disk that fails behind a
// mapping is, into an error.
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

// Meta says where the content is from.
func (x *Index) Meta() Meta { return x.meta }

// Place says where the records belong.
func (x *Index) Place() Place { return x.place }

// Size is the file's, in bytes.
func (x *Index) Size() int64 { return int64(len(x.mem)) }

// Resident is what of it is in memory all the time, in bytes.
func (x *Index) Resident() int { return len(x.names) + len(x.entries) + len(x.runTable) }

// Len is how many names there are.
func (x *Index) Len() int { return x.count }

// Records answers all records of a name, which is in lower case, in the channel's
// order; none is no error. An artifact that the channel has in both formats is answered
// once, as ".conda".
func (x *Index) Records(name string) (_ []conda.Record, err error) {
	defer runtime.KeepAlive(x)
	defer unreadable(&err)()
	i, ok := x.find(name)
	if !ok {
		return nil, nil
	}
	list := newRecords(x)
	for r := range x.runs(i) {
		data, err := x.data(r)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		if err := entries(data, list.add); err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
	}
	return list.records, nil
}

// find looks a name up.
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

// data is the bytes of a run, after their checksum was compared.
func (x *Index) data(r run) ([]byte, error) {
	data := x.mem[r.off : r.off+uint64(r.size)]
	if crc32.Checksum(data, castagnoli) != r.sum {
		return nil, fmt.Errorf("%w: %d bytes at %d have another checksum", errDamaged, r.size, r.off)
	}
	return data, nil
}
