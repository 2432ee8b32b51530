package channel_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway.dev/services/conda/channel"
	"slipway.dev/services/internal/fault"
)

// TestWithoutNetwork checks that a process that starts without network serves its indexes
// and reports their age.
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
	if left, _ := filepath.Glob(filepath.Join(dir, ".new-*")); len(left) > 0 {
		t.Errorf("%v was not removed", left)
	}
	// An index that was damaged meanwhile is fetched again, which fails without network.
	again.stop()
	files, _ := filepath.Glob(filepath.Join(dir, "*.idx"))
	if err := os.WriteFile(files[0], []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := open(t, site, dir).versions(t); !errors.Is(err, fault.Unavailable) {
		t.Errorf("with a damaged file: %q, %v", got, err)
	}
}

// TestTogether checks that concurrent calls share one request.
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
		t.Errorf("requested %q, want each file once", got)
	}
}

// TestPrune checks that indexes stay within the disk limit and that recently used ones are
// retained.
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
		t.Errorf("the newest index was removed: %v", err)
	}
}

// TestListsAfter checks that an index older than Access.After is read again, once, and that
// it is still returned if the channel cannot be read.
func TestListsAfter(t *testing.T) {
	t.Parallel()
	site := newWeb(t)
	site.set("/c/linux-64/repodata.json", repodata("1"))
	w := open(t, site, t.TempDir())
	after := func(at time.Time) string {
		t.Helper()
		state, err := w.get(t, channel.Access{After: at})
		if err != nil {
			t.Fatal(err)
		}
		records, err := state.Index.Records("a")
		if err != nil || len(records) != 1 {
			t.Fatal(records, err)
		}
		return records[0].Version
	}
	after(time.Time{})
	site.set("/c/linux-64/repodata.json", repodata("2"))
	w.clock.forward(time.Minute)
	noticed := w.clock.now()
	if got := after(time.Time{}); got != "1" {
		t.Errorf("a list that is not due is %s", got)
	}
	w.clock.forward(time.Second)
	if got := after(noticed); got != "2" {
		t.Errorf("after a change the list is %s", got)
	}
	site.paths()
	if got := after(noticed); got != "2" || len(site.paths()) > 0 {
		t.Errorf("a list that is new enough is %s, and was requested", got)
	}
	if got := after(w.clock.now().Add(time.Hour)); got != "2" { // a time in the future counts as now, so that the call ends
		t.Errorf("for a time to come the list is %s", got)
	}
	site.answers(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	w.clock.forward(time.Second)
	if got := after(w.clock.now()); got != "2" {
		t.Errorf("of a broken channel the list is %s", got)
	}
}
