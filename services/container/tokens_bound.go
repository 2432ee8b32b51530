package container

import (
	"container/list"
	"sync"
)

// tokenBound keeps the tokens in a Redis that is this process's own memory to a number
// of bytes: those that were used longest ago go first, and are read from SQL from then
// on. nil has no bound. Safe for concurrent use.
type tokenBound struct {
	mu         sync.Mutex
	most, held int64
	order      *list.List // of *heldToken, the last used in front
	at         map[string]*list.Element
}

type heldToken struct {
	token string
	size  int64
}

// tokenOverhead is what a token takes beside its plan.
const tokenOverhead = 512

func newTokenBound(most int64) *tokenBound {
	if most <= 0 {
		return nil
	}
	return &tokenBound{most: most, order: list.New(), at: map[string]*list.Element{}}
}

// add counts n more bytes of a token, and returns those that have to go.
func (b *tokenBound) add(token string, n int) (gone []string) {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	e, ok := b.at[token]
	if !ok {
		e = b.order.PushFront(&heldToken{token: token, size: tokenOverhead})
		b.at[token] = e
		b.held += tokenOverhead
	}
	b.order.MoveToFront(e)
	e.Value.(*heldToken).size += int64(n) //nolint:forcetypeassert // nothing else is put in
	b.held += int64(n)
	for b.held > b.most && b.order.Len() > 1 {
		last := b.order.Remove(b.order.Back()).(*heldToken) //nolint:forcetypeassert // nothing else is put in
		delete(b.at, last.token)
		b.held -= last.size
		gone = append(gone, last.token)
	}
	return gone
}

// use says that a token is wanted.
func (b *tokenBound) use(token string) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if e, ok := b.at[token]; ok {
		b.order.MoveToFront(e)
	}
}
