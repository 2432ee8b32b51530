package sink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"slipway.dev/services/internal/limits"
)

// ending is how long Write waits for the disk after its context is done.
const ending = 3 * time.Second

// A File appends lines to a file. It opens the file for each Write, so that a file that was
// renamed or deleted is replaced by a new one, and rotation needs no signal.
type File struct {
	path   string
	append func(path string, records []Record) error
	// writing is the result of a write that a disk delays beyond its timeout.
	writing chan error
}

func newFile(path string) *File { return &File{path: path, append: appendTo} }

// String returns the path.
func (f *File) String() string { return f.path }

// Write implements Target. The records are on the disk when it returns without an error. If it
// returns an error, it has removed the lines that it wrote, if possible. A disk that does not
// respond delays it by limits.AuditSinkTime at most.
func (f *File) Write(ctx context.Context, records []Record) (int, error) {
	if len(records) == 0 {
		return 0, nil
	}
	if f.writing != nil {
		select {
		case <-f.writing: // the records of that write are repeated
			f.writing = nil
		default:
			return 0, fmt.Errorf("%s: the disk has not responded to the previous write yet", f.path)
		}
	}
	written := make(chan error, 1)
	go func() { written <- f.append(f.path, records) }()
	timeout := time.NewTimer(limits.AuditSinkTime)
	defer timeout.Stop()
	stop := context.AfterFunc(ctx, func() { timeout.Reset(ending) })
	defer stop()
	select {
	case err := <-written:
		if err != nil {
			return 0, err
		}
		return len(records), nil
	case <-timeout.C:
		f.writing = written
		return 0, fmt.Errorf("%s: the disk does not respond: %w", f.path, os.ErrDeadlineExceeded)
	}
}

// appendTo appends records to a file, which it creates if it does not exist.
func appendTo(path string, records []Record) error {
	// O_NONBLOCK prevents that opening a named pipe blocks.
	file, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0o600)
	if errors.Is(err, syscall.ELOOP) {
		return fmt.Errorf("%s is a symbolic link, which is not followed; use the path of the file: %w", path, err)
	}
	if err != nil {
		return err
	}
	return errors.Join(appendLocked(file, records), file.Close())
}

// appendLocked prevents that another process appends lines that a failed write of this one would
// remove.
func appendLocked(file *os.File, records []Record) error {
	descriptor := int(file.Fd())
	if err := syscall.Flock(descriptor, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("%s cannot be locked; another process may be writing to it: %w", file.Name(), err)
	}
	// The end of the file would not unlock it while a child process is being started, which has
	// the descriptor until then.
	defer func() { _ = syscall.Flock(descriptor, syscall.LOCK_UN) }()
	return appendLines(file, records)
}

// appendLines appends records to a file, or nothing.
func appendLines(file *os.File, records []Record) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if err := secure(file, info); err != nil {
		return err
	}
	text, err := startOfLine(file, info.Size())
	if err != nil {
		return err
	}
	for _, r := range records {
		text = append(append(text, r.Line...), '\n')
	}
	n, err := file.Write(text)
	if err == nil {
		err = file.Sync()
	}
	if err == nil && info.Size() == 0 {
		err = syncFolder(filepath.Dir(file.Name()))
	}
	if err != nil {
		return errors.Join(err, removeTail(file, info.Size(), int64(n)))
	}
	return nil
}

// secure rejects what is not a regular file, and removes the permissions of other users. Those of
// the group remain, for programs that forward the file.
func secure(file *os.File, info os.FileInfo) error {
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", file.Name())
	}
	if mode := info.Mode().Perm(); mode&0o007 != 0 {
		return file.Chmod(mode &^ 0o007)
	}
	return nil
}

// syncFolder stores the name of a new file on the disk.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if errors.Is(err, os.ErrPermission) { // the user may create files in it, but not read it
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// removeTail removes the last bytes of a file, unless another program has changed its size.
func removeTail(file *os.File, size, written int64) error {
	info, err := file.Stat()
	if err != nil || written == 0 || info.Size() != size+written {
		return err
	}
	return file.Truncate(size)
}

// startOfLine returns the line break that a file lacks if a process was killed while it wrote a
// line.
func startOfLine(file *os.File, size int64) ([]byte, error) {
	if size == 0 {
		return nil, nil
	}
	var last [1]byte
	if _, err := file.ReadAt(last[:], size-1); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if last[0] == '\n' {
		return nil, nil
	}
	return []byte{'\n'}, nil
}
