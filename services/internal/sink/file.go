package sink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// A File appends lines to a file. It opens the file for each Write, so that a file that was
// renamed or deleted is replaced by a new one, and rotation needs no signal.
type File struct{ path string }

// String returns the path.
func (f *File) String() string { return f.path }

// Write implements Target. The records are on the disk when it returns without an error. If it
// returns an error, it has removed the lines that it wrote, if possible.
func (f *File) Write(_ context.Context, records []Record) (int, error) {
	if len(records) == 0 {
		return 0, nil
	}
	// O_NONBLOCK prevents that opening a named pipe blocks.
	file, err := os.OpenFile(f.path, os.O_RDWR|os.O_APPEND|os.O_CREATE|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return 0, err
	}
	if err := errors.Join(appendLines(file, records), file.Close()); err != nil {
		return 0, err
	}
	return len(records), nil
}

// appendLines appends records to a file, or nothing.
func appendLines(file *os.File, records []Record) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", file.Name())
	}
	text, err := startOfLine(file, info.Size())
	if err != nil {
		return err
	}
	for _, r := range records {
		text = append(append(text, r.Line...), '\n')
	}
	_, err = file.Write(text)
	if err == nil {
		err = file.Sync()
	}
	if err != nil {
		return errors.Join(err, file.Truncate(info.Size()))
	}
	return nil
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
