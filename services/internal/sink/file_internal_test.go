package sink

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway.dev/services/internal/limits"
)

// TestFileHangs checks that a disk that does not respond delays Write for a limited time, also
// when the process ends, and that nothing is written until it has responded.
func TestFileHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		writes := 0
		f := newFile("/audit.jsonl")
		f.append = func(string, []Record) error {
			writes++
			<-release
			return nil
		}
		fails := func(ctx context.Context, want string, after time.Duration) {
			t.Helper()
			begin := time.Now()
			n, err := f.Write(ctx, records())
			if n != 0 || err == nil || !strings.Contains(err.Error(), want) || time.Since(begin) != after {
				t.Errorf("%d, %v after %s", n, err, time.Since(begin))
			}
		}
		fails(t.Context(), "the disk does not respond", limits.AuditSinkTime)
		fails(t.Context(), "has not responded to the previous write", 0)
		release <- struct{}{}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		fails(ctx, "the disk does not respond", time.Second+ending)
		close(release)
		synctest.Wait()
		if n, err := f.Write(t.Context(), records()); n != 2 || err != nil || writes != 3 {
			t.Errorf("%d, %v after %d writes", n, err, writes)
		}
	})
}

// TestRemoveTail checks that a failed write changes nothing of a file that another program has
// changed.
func TestRemoveTail(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"1\n2 inc": "1\n", "1\n2\n3 inc": "1\n2\n3 inc", "": ""} {
		file, err := os.Create(filepath.Join(t.TempDir(), "file"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteString(text); err != nil {
			t.Fatal(err)
		}
		err = removeTail(file, 2, 5)
		raw, err2 := os.ReadFile(file.Name())
		if err != nil || err2 != nil || string(raw) != want {
			t.Errorf("%q became %q: %v, %v", text, raw, err, err2)
		}
		_ = file.Close()
	}
}
