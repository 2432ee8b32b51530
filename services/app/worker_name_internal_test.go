package app

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestWorkerName checks that the names of a worker differ after a restart in the last part only, and
// that those of another data_dir differ in the part before.
func TestWorkerName(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new")
	name := func(dir string) (machine, last string) {
		t.Helper()
		full, err := workerName(dir)
		if err != nil {
			t.Fatal(err)
		}
		at := strings.LastIndex(full, "-")
		return full[:at], full[at:]
	}
	machine, last := name(dir)
	again, lastAgain := name(dir)
	other, _ := name(t.TempDir())
	if machine != again || last == lastAgain || machine == other {
		t.Errorf("the names are %s%s, %s%s, and that of another worker %s", machine, last, again, lastAgain, other)
	}
}
