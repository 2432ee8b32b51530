package run

import (
	"errors"
	"testing"

	"slipway.dev/services/mount/cache"
)

// TestAskAgain checks that a name which is denied does not prevent another attempt with a name that fails only now.
func TestAskAgain(t *testing.T) {
	t.Parallel()
	busy, denied := errors.New("busy"), errors.Join(cache.ErrPermanent, errors.New("denied"))
	known := func() (*registry, error) { return &registry{}, nil }
	for _, tc := range []struct {
		errs []error
		want error
	}{
		{[]error{denied, busy}, busy},
		{[]error{busy, denied}, busy},
		{[]error{denied, denied}, denied},
		{[]error{denied, nil}, nil},
	} {
		s := &sources{list: []source{{"a", known}, {"b", known}}}
		n := -1
		_, err := s.ask(t.Context(), func(*registry) ([]byte, error) { n++; return nil, tc.errs[n] })
		if !errors.Is(err, tc.want) || errors.Is(err, cache.ErrPermanent) != errors.Is(tc.want, cache.ErrPermanent) {
			t.Errorf("%v: %v, want %v", tc.errs, err, tc.want)
		}
	}
}
