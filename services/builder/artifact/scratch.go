package artifact

import (
	"bytes"
	"io"
	"os"
)

// scratchMemory is how much a scratch holds before it goes to disk, in bytes.
const scratchMemory = 1 << 20

// scratch keeps bytes until their length is known: in memory, and on disk when
// there are many. Not safe for concurrent use.
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
		if err := os.Remove(f.Name()); err != nil { // it is gone with the process, too
			return 0, err
		}
	}
	return s.file.Write(p)
}

// reader reads all that was written, from the beginning.
func (s *scratch) reader() io.Reader {
	memory := bytes.NewReader(s.memory.Bytes())
	if s.file == nil {
		return memory
	}
	return io.MultiReader(memory, io.NewSectionReader(s.file, 0, s.size-int64(s.memory.Len())))
}

// reset empties it.
func (s *scratch) reset() error {
	s.memory.Reset()
	s.size = 0
	return s.close()
}

// close gives the disk back.
func (s *scratch) close() error {
	if s.file == nil {
		return nil
	}
	f := s.file
	s.file = nil
	return f.Close()
}
