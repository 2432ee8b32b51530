package squashfs

import (
	"context"

	"golang.org/x/sync/errgroup"

	"slipway.dev/services/builder/arena"
)

// stored marks the length of an uncompressed block.
const stored = 1 << 24

// block is a block on its way to the file.
type block struct {
	// raw is the content and packed the compressed content, which is used if it is shorter.
	raw, packed []byte
	sum         sum
	// file is the file that the block belongs to, or nil for a block of file ends. last
	// marks the file's last whole block.
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
	ctx           context.Context //nolint:containedctx // for the time of one image
	free          chan *block
	work, inOrder chan *block
	marker        marker
	image         *image
	full          func(error) error

	// The following fields belong to the goroutine that stores blocks.

	// begin is the position of the current file's first block, and chain the sum of its
	// blocks. hasStored is set while a file has stored blocks and waits for more.
	begin     uint64
	chain     sum
	hasStored bool
	runs      *sums
	table     *arena.Table[fragment]
	// blocks holds the lengths of the blocks of all files.
	blocks *arena.Table[uint32]
}

// fragment is the position of a block of file ends. It holds no pointers.
type fragment struct {
	start uint64
	word  uint32
}

func newLane(ctx context.Context, group *errgroup.Group, w *Writer, workers int) *lane {
	n := 2*workers + 2 // one is being filled, and one stored
	l := &lane{
		ctx: ctx, free: make(chan *block, n), work: make(chan *block, n), inOrder: make(chan *block, n),
		marker: newMarker(), image: &w.image, full: w.full,
		runs: newSums(w.memory), table: arena.NewTable[fragment](w.memory), blocks: arena.NewTable[uint32](w.memory),
	}
	for range n {
		l.free <- &block{raw: make([]byte, 0, blockSize), packed: make([]byte, 0, blockSize+blockSize/64), done: make(chan struct{}, 1)}
	}
	for range workers {
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
		b.raw, b.packed, b.file, b.last, b.hole = b.raw[:0], b.packed[:0], nil, false, false
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
			b.packed = l.image.pack(b.packed, b.raw)
			if b.file != nil {
				content, _ := b.content()
				b.sum = l.marker.of(content)
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

func (l *lane) storeBlock(b *block) error {
	if b.file == nil {
		content, word := b.content()
		_, f, err := l.table.Add()
		if err != nil {
			return l.full(err)
		}
		*f = fragment{l.image.end, word}
		return l.image.append(content)
	}
	if len(b.raw) < blockSize { // a hole at the end of a file
		b.file.holes += uint64(len(b.raw))
		return l.list(b.file, 0)
	}
	if !l.hasStored {
		l.begin, l.chain, l.hasStored = l.image.end, sum{}, true
	}
	content, word := b.content()
	if b.hole {
		content, word = nil, 0
		b.file.holes += blockSize
		b.sum = sum{}
	}
	if err := l.list(b.file, word); err != nil {
		return err
	}
	l.chain = l.marker.join(l.chain, b.sum, word)
	if err := l.image.append(content); err != nil {
		return err
	}
	if b.last {
		return l.conclude(b.file)
	}
	return nil
}

// list appends a block to the current file.
func (l *lane) list(f *file, word uint32) error {
	id, to, err := l.blocks.Add()
	if err != nil {
		return l.full(err)
	}
	if *to = word; f.count == 0 {
		f.first = id
	}
	f.count++
	return nil
}

// conclude completes a file. If an earlier file has the same blocks, the file uses those,
// and the next file overwrites its own.
func (l *lane) conclude(f *file) error {
	l.hasStored = false
	if same, ok := l.runs.find(l.chain); ok {
		f.start, l.image.end = same, l.begin
		return nil
	}
	f.start = l.begin
	return l.full(l.runs.add(l.chain, l.begin))
}
