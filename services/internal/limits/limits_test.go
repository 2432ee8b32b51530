package limits

import "testing"

// TestRows checks that every row is complete: a limit or a setting, and a reason.
func TestRows(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, r := range Rows() {
		if r.What == "" || r.Why == "" || (r.Bound == "") == (r.Key == "") || seen[r.What] {
			t.Errorf("the row %+v is incomplete, or there twice", r)
		}
		seen[r.What] = true
	}
}

func TestSize(t *testing.T) {
	t.Parallel()
	for bytes, want := range map[int64]string{1 << 20: "1 MiB", 3 << 30: "3 GiB", 1536 << 10: "1536 KiB", 100: "100 B"} {
		if got := size(bytes); got != want {
			t.Errorf("size(%d) is %q, want %q", bytes, got, want)
		}
	}
}
