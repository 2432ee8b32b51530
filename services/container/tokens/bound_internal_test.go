package tokens

import (
	"reflect"
	"testing"
)

// TestTokenBound checks that the least recently used token is evicted.
func TestTokenBound(t *testing.T) {
	t.Parallel()
	b := newBound(3 * (overhead + 100))
	for _, token := range []string{"a", "b", "c"} {
		if gone := b.add(token, 100); gone != nil {
			t.Errorf("adding %s evicted %v", token, gone)
		}
	}
	b.use("a")
	if gone := b.add("d", 100); !reflect.DeepEqual(gone, []string{"b"}) {
		t.Errorf("evicted %v, want b", gone)
	}
	if gone := b.add("a", 10_000); !reflect.DeepEqual(gone, []string{"c", "d"}) {
		t.Errorf("evicted %v, want all others", gone)
	}
	(*bound)(nil).use("x")
}
