package conda

import "testing"

func TestShellWord(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"a=1": "a=1", "c::a=1.2": "c::a=1.2", "a >=1": "'a >=1'", "": "''", "it's": `'it'\''s'`, "$(id)": "'$(id)'"} {
		if got := shellWord(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}
