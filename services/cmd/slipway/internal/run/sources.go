package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/regclient/regclient/types/descriptor"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/mount/cache"
)

// sources are the names of images with one environment, from which its packages are fetched. A server issues a new name for each
// request, and names expire, so that the newest name is asked first. It is safe for concurrent use.
type sources struct {
	connection connection

	mu   sync.Mutex
	list []source
}

// A source is the registry of a name, which is connected to when it is first needed: reading the certificates of the system takes longer
// than the start of a command.
type source struct {
	image    string
	registry func() (*registry, error)
}

func newSources(image string, c connection) *sources {
	s := &sources{connection: c}
	s.add(image)
	return s
}

// add makes a name the first one to be asked. Of more than limits.MountSources names, the one that was least recently used is forgotten.
func (s *sources) add(image string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.find(image); i >= 0 {
		s.first(i)
		return
	}
	one := source{image, sync.OnceValues(func() (*registry, error) { return newRegistry(image, s.connection) })}
	s.list = slices.Insert(s.list, 0, one)
	s.list = s.list[:min(len(s.list), limits.MountSources)]
}

func (s *sources) find(image string) int {
	return slices.IndexFunc(s.list, func(one source) bool { return one.image == image })
}

// first moves a source to the front.
func (s *sources) first(i int) {
	one := s.list[i]
	s.list = slices.Insert(slices.Delete(s.list, i, i+1), 0, one)
}

// worked makes a name the first one to be asked, unless it was forgotten.
func (s *sources) worked(image string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.find(image); i > 0 {
		s.first(i)
	}
}

// ask calls get with the registry of each name until one succeeds. The error is that of the first name, or of the first one with which
// another attempt may succeed.
func (s *sources) ask(ctx context.Context, get func(*registry) ([]byte, error)) ([]byte, error) {
	s.mu.Lock()
	list := slices.Clone(s.list)
	s.mu.Unlock()
	var first error
	for i, one := range list {
		b, err := one.ask(get)
		if err == nil {
			if i > 0 {
				s.worked(one.image)
			}
			return b, nil
		}
		if first == nil || errors.Is(first, cache.ErrPermanent) && !errors.Is(err, cache.ErrPermanent) {
			first = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, first
}

func (s source) ask(get func(*registry) ([]byte, error)) ([]byte, error) {
	r, err := s.registry()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", cache.ErrPermanent, err)
	}
	return get(r)
}

// Range implements cache.Source.
func (s *sources) Range(ctx context.Context, d string, from, to int64) ([]byte, error) {
	return s.ask(ctx, func(r *registry) ([]byte, error) { return r.Range(ctx, d, from, to) })
}

// document returns a small blob, whose digest is verified.
func (s *sources) document(ctx context.Context, d descriptor.Descriptor, limit int64) ([]byte, error) {
	return s.ask(ctx, func(r *registry) ([]byte, error) { return r.document(ctx, d, limit) })
}
