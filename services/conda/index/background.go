package index

import "io"

// blockSize is the size of a full block, in bytes.
const blockSize = 1 << 20

// A backgroundWriter passes what is written to it on to another writer in a separate goroutine, in
// blocks, so that reading a channel does not wait for that writer. The caller must call close.
// It must not be used concurrently.
type backgroundWriter struct {
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

func newBackgroundWriter(out io.Writer) *backgroundWriter {
	b := &backgroundWriter{full: make(chan []byte), empty: make(chan written, 1)}
	b.empty <- written{}
	go b.run(out)
	return b
}

func (b *backgroundWriter) run(out io.Writer) {
	var err error
	for block := range b.full {
		if err == nil {
			_, err = out.Write(block)
		}
		b.empty <- written{block[:0], err}
	}
	close(b.empty)
}

// Write copies p to one block, which grows if p is larger than blockSize. Its error may be that
// of an earlier call.
func (b *backgroundWriter) Write(p []byte) (int, error) {
	if len(b.block) > 0 && len(b.block)+len(p) > blockSize {
		if err := b.turn(); err != nil {
			return 0, err
		}
	}
	b.block = append(b.block, p...)
	return len(p), nil
}

// turn sends the block to the writer, and waits for the one before it.
func (b *backgroundWriter) turn() error {
	b.full <- b.block
	w := <-b.empty
	b.block = w.block
	return w.err
}

// close writes the remaining data. Calling it again has no effect.
func (b *backgroundWriter) close() (err error) {
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
