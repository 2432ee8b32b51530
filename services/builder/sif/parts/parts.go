// Package parts stores the compressed layers that Singularity images are made of. A layer gets its part
// when an image needs it, or while the layer itself is made.
package parts

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/singleflight"

	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/builder/sif"
	"slipway.dev/services/builder/squashfs"
)

// A Store is a folder with the parts of layers. A part that is lost is made again with the same
// bytes. It is safe for concurrent use.
type Store struct {
	dir        string
	compressor *squashfs.Compressor
	limit      int64
	once       singleflight.Group
	pruning    sync.Mutex
}

// New creates the folder, and removes the partial files of a process that was killed. The limit is the
// maximum size of all parts in bytes, beyond which Prune removes the least recently used ones; 0 means
// no limit.
func New(dir string, limit int64, c *squashfs.Compressor) (*Store, error) {
	s := &Store{dir: dir, limit: limit, compressor: c}
	if err := os.RemoveAll(s.temporary()); err != nil {
		return nil, err
	}
	return s, os.MkdirAll(s.temporary(), 0o700)
}

func (s *Store) temporary() string { return filepath.Join(s.dir, "tmp") }

// Compressor returns the compressor of the parts.
func (s *Store) Compressor() *squashfs.Compressor { return s.compressor }

// maxWrites is how often a part is written that cannot be read afterwards.
const maxWrites = 2

// Open opens the part of a layer of the registry at host, which write creates unless it is stored. The
// caller has verified that the job may read the layer there. Another registry, which may belong to an
// attacker, does not get the part for the digest alone.
func (s *Store) Open(ctx context.Context, host string, layer digest.Digest, write func(out io.Writer) error) (sif.OpenPart, error) {
	path := s.path(host, layer)
	for written := 0; ; {
		p, err := openPart(path)
		if !errors.Is(err, fs.ErrNotExist) || written == maxWrites {
			return p, err
		}
		mine := false
		_, err, _ = s.once.Do(path, func() (any, error) {
			mine = true
			return nil, s.write(path, write)
		})
		// If another job has been cancelled or has failed, this one writes the part, and gets its own error.
		if err != nil && mine {
			return sif.OpenPart{}, asFull(err)
		}
		if ctx.Err() != nil {
			return sif.OpenPart{}, context.Cause(ctx)
		}
		if mine {
			written++
		}
	}
}

// path returns the path of the part of a layer.
func (s *Store) path(host string, layer digest.Digest) string {
	key := sha256.Sum256(fmt.Appendf(nil, "%s %s %s", s.compressor.Version(), host, layer))
	return filepath.Join(s.dir, hex.EncodeToString(key[:]))
}

// asFull converts the error of a full disk to a failure.
func asFull(err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return jobs.Internal.Failure("The worker's disk is full; its operator has to free space on the disk of data_dir, or lower the setting sif_layers", err)
	}
	return err
}

func (s *Store) write(path string, write func(out io.Writer) error) error {
	if _, err := os.Stat(path); err == nil { // written while this call began
		return nil
	}
	f, err := os.CreateTemp(s.temporary(), "")
	if err != nil {
		return err
	}
	return finish(f, write(f), path)
}

// finish closes a temporary file, which gets its name unless there was an error. Otherwise it is removed.
func finish(f *os.File, err error, path string) error {
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// openPart opens a part and marks it as recently used. A part that is not as it was written, for example
// after a power failure, is removed, and the error is fs.ErrNotExist.
func openPart(path string) (sif.OpenPart, error) {
	f, err := os.Open(path)
	if err != nil {
		return sif.OpenPart{}, err
	}
	p, err := checked(f)
	if err != nil {
		return sif.OpenPart{}, errors.Join(fs.ErrNotExist, err, f.Close(), os.Remove(path))
	}
	_ = os.Chtimes(path, time.Time{}, time.Now()) // on failure, it is only evicted earlier than others
	return sif.OpenPart{Part: p, Closer: f}, nil
}

func checked(f *os.File) (*squashfs.Part, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	p, err := squashfs.OpenPart(f, info.Size())
	if err != nil {
		return nil, err
	}
	return p, p.Check()
}

// Prune removes the least recently used parts beyond the limit. Images that use them keep them open.
func (s *Store) Prune() error {
	if s.limit == 0 || !s.pruning.TryLock() {
		return nil
	}
	defer s.pruning.Unlock()
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	var files []fs.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			files = append(files, info)
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int {
		return cmp.Or(b.ModTime().Compare(a.ModTime()), cmp.Compare(a.Name(), b.Name()))
	})
	left := s.limit
	for _, f := range files {
		if left -= f.Size(); left >= 0 {
			continue
		}
		left += f.Size()
		if err := os.Remove(filepath.Join(s.dir, f.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
