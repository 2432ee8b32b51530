package tokens

import (
	"reflect"
	"testing"
)

// TestTokenBound evicts what was used longest ago.
func TestTokenBound(t *testing.T) {
	t.Parallel()
	b := newBound(3 * (overhead + 100))
	for _, token := range []string{"a", "b", "c"} {
		if gone := b.add(token, 100); gone != nil {
			t.Errorf("%s made %v go", token, gone)
		}
	}
	b.use("a")
	if gone := b.add("d", 100); !reflect.DeepEqual(gone, []string{"b"}) {
		t.Errorf("%v went, want b", gone)
	}
	if gone := b.add("a", 10_000); !reflect.DeepEqual(gone, []string{"c", "d"}) {
		t.Errorf("%v went, want all others", gone)
	}
	(*bound)(nil).use("x")
}
