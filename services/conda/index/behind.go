package index

import (
	"io"
	"os"
)

// blockSize is the size of one write, in bytes.
const blockSize = 1 << 20

// A behind writes a file in a separate goroutine, so that reading a channel does not wait
// for the disk. The caller must call close. It must not be used concurrently.
type behind struct {
	block []byte
	// full receives blocks to write. empty returns them, with the first error so far.
	full  chan []byte
	empty chan written
	ended bool
}

// A written is a block that can be filled again.
type written struct {
	block []byte
	err   error
}

func writeBehind(f *os.File) *behind {
	b := &behind{block: make([]byte, 0, blockSize), full: make(chan []byte), empty: make(chan written, 1)}
	b.empty <- written{block: make([]byte, 0, blockSize)}
	go b.run(f)
	return b
}

func (b *behind) run(out io.Writer) {
	var err error
	for block := range b.full {
		if err == nil {
			_, err = out.Write(block)
		}
		b.empty <- written{block[:0], err}
	}
	close(b.empty)
}

// Write copies p. Its error may be that of an earlier call.
func (b *behind) Write(p []byte) (n int, err error) {
	for n < len(p) {
		if len(b.block) == blockSize {
			if err := b.turn(); err != nil {
				return n, err
			}
		}
		part := p[n:min(len(p), n+blockSize-len(b.block))]
		b.block = append(b.block, part...)
		n += len(part)
	}
	return n, nil
}

// turn sends the block to the writer, and waits for the one before it.
func (b *behind) turn() error {
	b.full <- b.block
	w := <-b.empty
	b.block = w.block
	return w.err
}

// close writes the remaining data. Calling it again has no effect.
func (b *behind) close() (err error) {
	if b.ended {
		return nil
	}
	b.ended = true
	b.full <- b.block
	close(b.full)
	for w := range b.empty {
		err = w.err
	}
	return err
}
