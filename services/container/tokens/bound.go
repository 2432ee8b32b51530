package tokens

import (
	"container/list"
	"sync"
)

// A bound limits the bytes of tokens in a Redis that is in this process's own memory. It
// evicts the least recently used tokens, which are then read from SQL. A nil bound has no
// limit. It is safe for concurrent use.
type bound struct {
	mu         sync.Mutex
	most, held int64
	order      *list.List // of *entry, most recently used first
	at         map[string]*list.Element
}

type entry struct {
	token string
	size  int64
}

// overhead is the approximate memory of a token in addition to its plan, in bytes.
const overhead = 512

func newBound(most int64) *bound {
	if most <= 0 {
		return nil
	}
	return &bound{most: most, order: list.New(), at: map[string]*list.Element{}}
}

// add counts n more bytes of a token, and returns the tokens to evict.
func (b *bound) add(token string, n int) (gone []string) {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	e, ok := b.at[token]
	if !ok {
		e = b.order.PushFront(&entry{token: token, size: overhead})
		b.at[token] = e
		b.held += overhead
	}
	b.order.MoveToFront(e)
	e.Value.(*entry).size += int64(n) //nolint:forcetypeassert // nothing else is put in
	b.held += int64(n)
	for b.held > b.most && b.order.Len() > 1 {
		last := b.order.Remove(b.order.Back()).(*entry) //nolint:forcetypeassert // nothing else is put in
		delete(b.at, last.token)
		b.held -= last.size
		gone = append(gone, last.token)
	}
	return gone
}

// use marks a token as recently used.
func (b *bound) use(token string) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if e, ok := b.at[token]; ok {
		b.order.MoveToFront(e)
	}
}
