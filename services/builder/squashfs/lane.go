package squashfs

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"io"

	"golang.org/x/sync/errgroup"

	"slipway.dev/services/builder/arena"
)

// stored marks the length of an uncompressed block.
const stored = 1 << 24

// block is a block on its way to the file.
type block struct {
	// raw is the content and packed the compressed content, which is used if it is shorter.
	raw, packed []byte
	// sum is the SHA-256 of the stored content, or zero for a hole.
	sum [32]byte
	// file is the file that the block belongs to, or nil for a block of file ends. last
	// marks the file's last block.
	file *file
	last bool
	// hole marks a block of zeros, which is not stored. It may be the end of a file.
	hole bool
	done chan struct{}
}

// content returns the bytes to store, and word their length in the format of block lists.
func (b *block) content() (content []byte, word uint32) {
	if len(b.packed) < len(b.raw) {
		return b.packed, uint32(len(b.packed))
	}
	return b.raw, uint32(len(b.raw)) | stored
}

// lane compresses blocks on several processors and stores them in the order of arrival. The
// number of its blocks is fixed: a caller that needs another one waits until one is stored.
type lane struct {
	ctx           context.Context //nolint:containedctx // for the time of one part
	free          chan *block
	work, inOrder chan *block
	pack          packer
	full          func(error) error

	// The following fields belong to the goroutine that stores blocks.

	out io.Writer
	// end is the number of stored bytes.
	end uint64
	// sum is the hash of the current file's blocks, and stored that of all bytes that are stored.
	sum, stored hash.Hash
	// words holds the stored lengths of the blocks of all files.
	words     *arena.Table[uint32]
	fragments *arena.Table[fragment]
}

// fragment is the position of a block of file ends. It holds no pointers.
type fragment struct {
	start uint64
	word  uint32
}

func newLane(ctx context.Context, group *errgroup.Group, c *Compressor, memory *arena.Arena, out io.Writer, full func(error) error) *lane {
	n := 2*c.workers + 2 // one is being filled, and one stored
	l := &lane{
		ctx: ctx, free: make(chan *block, n), work: make(chan *block, n), inOrder: make(chan *block, n), pack: c.pack, full: full,
		out: out, sum: sha256.New(), stored: sha256.New(), words: arena.NewTable[uint32](memory), fragments: arena.NewTable[fragment](memory),
	}
	for range n {
		l.free <- &block{done: make(chan struct{}, 1)}
	}
	for range c.workers {
		group.Go(l.compress)
	}
	group.Go(l.store)
	return l
}

// close ends the input.
func (l *lane) close() {
	close(l.work)
	close(l.inOrder)
}

// next returns an empty block for put.
func (l *lane) next() (*block, error) {
	if l.ctx.Err() != nil {
		return nil, context.Cause(l.ctx)
	}
	select {
	case b := <-l.free:
		if b.raw == nil {
			b.raw, b.packed = make([]byte, 0, blockSize), make([]byte, 0, blockSize+blockSize/64)
		}
		b.raw, b.packed, b.sum, b.file, b.last, b.hole = b.raw[:0], b.packed[:0], [32]byte{}, nil, false, false
		return b, nil
	case <-l.ctx.Done():
		return nil, context.Cause(l.ctx)
	}
}

// put never blocks, since the channels have space for all blocks.
func (l *lane) put(b *block) {
	l.inOrder <- b
	l.work <- b
}

func (l *lane) compress() error {
	for b := range l.work {
		if !b.hole && l.ctx.Err() == nil {
			b.packed = l.pack(b.packed, b.raw)
			if b.file != nil {
				content, _ := b.content()
				b.sum = sha256.Sum256(content)
			}
		}
		b.done <- struct{}{}
	}
	return nil
}

func (l *lane) store() error {
	for b := range l.inOrder {
		<-b.done
		if l.ctx.Err() != nil {
			return context.Cause(l.ctx)
		}
		if err := l.storeBlock(b); err != nil {
			return err
		}
		l.free <- b
	}
	return nil
}

// storeBlock stores a block and records it.
func (l *lane) storeBlock(b *block) error {
	content, word := b.content()
	if b.hole {
		content, word = nil, 0
	}
	at := l.end
	n, err := l.out.Write(content)
	if l.end += uint64(n); err != nil {
		return fmt.Errorf("writing the part of a layer: %w", err)
	}
	_, _ = l.stored.Write(content)
	f := b.file
	if f == nil {
		_, to, err := l.fragments.Add()
		if err != nil {
			return l.full(err)
		}
		*to = fragment{at, word}
		return nil
	}
	id, to, err := l.words.Add()
	if err != nil {
		return l.full(err)
	}
	*to = word
	if f.count == 0 {
		f.first, f.start = id, at
		l.sum.Reset()
	}
	f.count++
	f.length += uint64(len(content))
	if b.hole {
		f.holes += uint64(len(b.raw))
	}
	_, _ = l.sum.Write(b.sum[:])
	_, _ = l.sum.Write(binary.LittleEndian.AppendUint32(nil, word))
	if b.last {
		l.conclude(f)
	}
	return nil
}

// conclude records the hash of a file's blocks, and of its end, which is in f.sum.
func (l *lane) conclude(f *file) {
	_, _ = l.sum.Write(f.sum[:])
	l.sum.Sum(f.sum[:0])
}
