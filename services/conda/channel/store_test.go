package channel_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway.dev/services/conda/channel"
	"slipway.dev/services/internal/fault"
)

// TestWithoutNetwork: a process that starts without network serves what it has, and
// says how old it is.
func TestWithoutNetwork(t *testing.T) {
	t.Parallel()
	site, dir := newWeb(t), t.TempDir()
	site.set("/c/linux-64/repodata.json", repodata("1"))
	w := open(t, site, dir)
	if got, err := w.versions(t); got != "1" || err != nil {
		t.Fatalf("got %q, %v", got, err)
	}
	w.stop()
	site.Close()
	if err := os.WriteFile(filepath.Join(dir, ".new-123"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	again := open(t, site, dir)
	again.clock.forward(5 * time.Hour)
	if got, err := again.versions(t); got != "1" || err != nil {
		t.Fatalf("without network: %q, %v", got, err)
	}
	again.settled()
	state, err := again.get(t, channel.Access{})
	if age := again.clock.now().Sub(state.Checked); err != nil || age < 4*time.Hour || age > 6*time.Hour || !strings.Contains(state.Failure, "cannot be reached") {
		t.Errorf("the state is %+v, %v", state, err)
	}
	if err := again.Ready(t.Context()); err != nil {
		t.Errorf("with an index it is not ready: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".new-*")); len(left) > 0 {
		t.Errorf("%v was left", left)
	}
	// What is damaged meanwhile is fetched anew, and else an error.
	again.stop()
	files, _ := filepath.Glob(filepath.Join(dir, "*.idx"))
	if err := os.WriteFile(files[0], []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := open(t, site, dir).versions(t); !errors.Is(err, fault.Unavailable) {
		t.Errorf("with a damaged file: %q, %v", got, err)
	}
}

// TestTogether: many who ask at once are one request.
func TestTogether(t *testing.T) {
	t.Parallel()
	site := newWeb(t)
	site.set("/c/linux-64/repodata.json", repodata("1"))
	w := open(t, site, t.TempDir())
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if got, err := w.versions(t); got != "1" || err != nil {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	all.Wait()
	if got := site.paths(); len(got) != 3 {
		t.Errorf("asked for %q, want each file once", got)
	}
}

// TestPrune: the indexes keep to their room, and those stay that are used.
func TestPrune(t *testing.T) {
	t.Parallel()
	site, dir := newWeb(t), t.TempDir()
	w := open(t, site, dir, func(o *channel.Options) { o.Size = 1200 })
	for i := range 6 {
		site.set(fmt.Sprintf("/c%d/linux-64/repodata.json", i), repodata("1"))
		c, err := w.Resolve(fmt.Sprintf("c%d", i))
		if err != nil {
			t.Fatal(err)
		}
		w.clock.forward(time.Second)
		if _, err := w.Get(t.Context(), c, "linux-64", channel.Access{}); err != nil {
			t.Fatal(err)
		}
		w.settled()
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.idx"))
	var total int64
	for _, f := range files {
		st, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		total += st.Size()
	}
	if total > 1200 || len(files) == 0 {
		t.Errorf("%d files take %d bytes", len(files), total)
	}
	site.paths()
	last, _ := w.Resolve("c5")
	if _, err := w.Get(t.Context(), last, "linux-64", channel.Access{}); err != nil || len(site.paths()) > 0 {
		t.Errorf("the newest went: %v", err)
	}
}
