package index

import (
	"io"
	"os"
)

// blockSize is what is written at once.
const blockSize = 1 << 20

// behind writes a file in a goroutine of its own: who reads a channel need not wait
// until the kernel has taken what was read before. It ends with close. Not safe for
// concurrent use.
type behind struct {
	block []byte
	// full blocks go to the goroutine, and come back empty, with what went wrong so far.
	full  chan []byte
	empty chan written
	ended bool
}

// written is a block that may be filled again.
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

// Write takes p over. Its error may be that of an earlier call.
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

// turn hands the block over, and waits for the one before it.
func (b *behind) turn() error {
	b.full <- b.block
	w := <-b.empty
	b.block = w.block
	return w.err
}

// close writes what is left. A second call does nothing.
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
