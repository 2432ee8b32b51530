package squashfs

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// stored marks in a block's length that it is not compressed.
const stored = 1 << 24

// block is on its way to the file.
type block struct {
	// raw is what it holds, packed the same compressed; packed is used where it is
	// shorter.
	raw, packed []byte
	sum         sum
	// file is whose it is, nil for one of ends of files; last is the file's last whole
	// one.
	file *file
	last bool
	// hole is a block of zeros, which is not stored; it may be the end of a file.
	hole bool
	done chan struct{}
}

// content is what is stored, and word its length as lists of blocks have it.
func (b *block) content() (content []byte, word uint32) {
	if len(b.packed) < len(b.raw) {
		return b.packed, uint32(len(b.packed))
	}
	return b.raw, uint32(len(b.raw)) | stored
}

// lane compresses blocks on several processors and stores them in the order in which
// they come. Its blocks are all there are: who wants another waits until one is
// stored.
type lane struct {
	ctx           context.Context //nolint:containedctx // for the time of one image
	free          chan *block
	work, inOrder chan *block
	marker        marker
	image         *image

	// What follows belongs to the goroutine that stores.

	// begin is where the blocks of the file under way begin, chain what they are.
	begin uint64
	chain sum
	under bool
	runs  map[sum]uint64
	table []fragment
}

// fragment is where a block of ends of files is stored.
type fragment struct {
	start uint64
	word  uint32
}

func newLane(ctx context.Context, group *errgroup.Group, m *image, workers int) *lane {
	n := 2*workers + 2 // one that is filled, one that is stored
	l := &lane{
		ctx: ctx, free: make(chan *block, n), work: make(chan *block, n), inOrder: make(chan *block, n),
		marker: newMarker(), image: m, runs: map[sum]uint64{},
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

// close says that no more blocks come.
func (l *lane) close() {
	close(l.work)
	close(l.inOrder)
}

// next is an empty block, for put.
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

// put never waits: the channels hold all blocks that there are.
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
		if err := l.keep(b); err != nil {
			return err
		}
		l.free <- b
	}
	return nil
}

func (l *lane) keep(b *block) error {
	if b.file == nil {
		content, word := b.content()
		l.table = append(l.table, fragment{l.image.end, word})
		return l.image.append(content)
	}
	if len(b.raw) < blockSize { // a hole at the end
		b.file.blocks = append(b.file.blocks, 0)
		b.file.holes += uint64(len(b.raw))
		return nil
	}
	if !l.under {
		l.begin, l.chain, l.under = l.image.end, sum{}, true
	}
	content, word := b.content()
	if b.hole {
		content, word = nil, 0
		b.file.holes += blockSize
		b.sum = sum{}
	}
	b.file.blocks = append(b.file.blocks, word)
	l.chain = l.marker.join(l.chain, b.sum, word)
	if err := l.image.append(content); err != nil {
		return err
	}
	if b.last {
		l.conclude(b.file)
	}
	return nil
}

// conclude ends a file. Where an earlier one has the same blocks, it uses those, and
// the next file is written over its own.
func (l *lane) conclude(f *file) {
	l.under = false
	if same, ok := l.runs[l.chain]; ok {
		f.start, l.image.end = same, l.begin
		return
	}
	f.start = l.begin
	l.runs[l.chain] = l.begin
}
