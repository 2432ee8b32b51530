package artifact

import (
	"bytes"
	"io"
	"os"
)

// scratchMemory is how many bytes a scratch holds in memory.
const scratchMemory = 1 << 20

// scratch buffers bytes until their length is known, in memory and then on disk. It is not
// safe for concurrent use.
type scratch struct {
	dir    string
	memory bytes.Buffer
	file   *os.File
	size   int64
}

// Write adds bytes.
func (s *scratch) Write(p []byte) (int, error) {
	s.size += int64(len(p))
	if s.file == nil && s.memory.Len()+len(p) <= scratchMemory {
		return s.memory.Write(p)
	}
	if s.file == nil {
		f, err := os.CreateTemp(s.dir, "scratch-")
		if err != nil {
			return 0, err
		}
		s.file = f
		if err := os.Remove(f.Name()); err != nil { // unlinked immediately, so that it does not outlive the process
			return 0, err
		}
	}
	return s.file.Write(p)
}

// reader returns a reader of all bytes that were written.
func (s *scratch) reader() io.Reader {
	memory := bytes.NewReader(s.memory.Bytes())
	if s.file == nil {
		return memory
	}
	return io.MultiReader(memory, io.NewSectionReader(s.file, 0, s.size-int64(s.memory.Len())))
}

// reset empties the scratch.
func (s *scratch) reset() error {
	s.memory.Reset()
	s.size = 0
	return s.close()
}

// close frees the disk space.
func (s *scratch) close() error {
	if s.file == nil {
		return nil
	}
	f := s.file
	s.file = nil
	return f.Close()
}
