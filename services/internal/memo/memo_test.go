package memo_test

import (
	"context"
	"errors"
	"testing"

	"slipway.dev/services/internal/memo"
)

func TestMemo(t *testing.T) {
	t.Parallel()
	m := memo.New(memo.Options[string, int]{Most: 10})
	lookups := 0
	get := func(v int, err error) (int, error) {
		return m.Get(t.Context(), "key", func(context.Context) (int, error) { lookups++; return v, err })
	}
	if _, err := get(1, errors.New("refused")); err == nil || m.Has("key") {
		t.Errorf("an error was cached: %v", err)
	}
	for range 2 {
		if v, err := get(2, nil); v != 2 || err != nil {
			t.Errorf("got %d, %v", v, err)
		}
	}
	if lookups != 2 {
		t.Errorf("%d lookups", lookups)
	}
	m.Set("key", 3)
	if v, err := get(4, nil); v != 3 || err != nil {
		t.Errorf("Get after Set returned %d, %v", v, err)
	}
}
