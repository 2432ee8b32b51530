package channel_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"slipway.dev/services/conda/channel"
	"slipway.dev/services/conda/history"
	"slipway.dev/services/internal/fault"
)

func remembering(o *channel.Options) { o.History = 30 * 24 * time.Hour }

// day sets the channel to a version, an hour later, and refreshes the list.
func (w *world) day(t *testing.T, version string) time.Time {
	t.Helper()
	w.web.set("/c/linux-64/repodata.json", repodata(version))
	w.clock.forward(24 * time.Hour)
	return w.refresh(t)
}

// refresh refreshes the list and returns the time.
func (w *world) refresh(t *testing.T) time.Time {
	t.Helper()
	if _, err := w.get(t, channel.Access{After: w.clock.now()}); err != nil {
		t.Fatal(err)
	}
	w.settled()
	return w.clock.now()
}

// asOf returns the versions of package a at a time, "?" in front if they are not known from
// the history.
func (w *world) asOf(t *testing.T, at time.Time) string {
	t.Helper()
	state, err := w.past(t, at)
	if err != nil {
		t.Fatal(err)
	}
	records, err := state.Index.Records("a")
	if err != nil {
		t.Fatal(err)
	}
	out := ""
	if !state.IsKnown {
		out = "?"
	}
	for _, r := range records {
		out += r.Version
	}
	return out
}

func (w *world) past(t *testing.T, at time.Time) (channel.State, error) {
	t.Helper()
	c, err := w.Resolve("c")
	if err != nil {
		t.Fatal(err)
	}
	state, err := w.get(t, channel.Access{})
	if err != nil {
		t.Fatal(err)
	}
	return w.AsOf(t.Context(), c, "linux-64", channel.Access{}, state, at)
}

// days returns a store whose channel had versions 1 to n on n days, the times at which they
// were read, and the path of the history.
func days(t *testing.T, dir string, n int, change ...func(*channel.Options)) (w *world, read []time.Time, path string) {
	t.Helper()
	w = open(t, newWeb(t), dir, append([]func(*channel.Options){remembering}, change...)...)
	for i := range n {
		read = append(read, w.day(t, strconv.Itoa(i+1)))
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.history"))
	if err != nil || n > 1 && len(files) != 1 {
		t.Fatal(files, err)
	}
	if n > 1 {
		path = files[0]
	}
	return w, read, path
}

func TestAsOf(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w, read, _ := days(t, dir, 4)
	check := func(w *world) {
		t.Helper()
		for at, want := range map[time.Time]string{
			read[0].Add(-time.Hour): "?1", read[0]: "1", read[1].Add(-time.Second): "1", read[1]: "2", read[2].Add(time.Hour): "3", read[3]: "4", read[3].Add(time.Hour): "4",
		} {
			if got := w.asOf(t, at); got != want {
				t.Errorf("at %s: %s, want %s", at, got, want)
			}
		}
	}
	check(w)
	state, err := w.past(t, read[1])
	if err != nil || state.Since.UnixMilli() != read[0].UnixMilli() || state.Until.UnixMilli() != read[1].UnixMilli() {
		t.Errorf("the state is %+v, %v", state, err)
	}
	// The states are the same after a restart.
	w.stop()
	again := open(t, w.web, dir, remembering)
	again.clock.forward(w.clock.now().Sub(again.clock.now()))
	check(again)
	// They are also the same after the channel has changed again.
	again.day(t, "5")
	check2 := again.asOf(t, read[2])
	if check2 != "3" || again.asOf(t, read[3].Add(time.Hour)) != "4" {
		t.Errorf("after another change: %s", check2)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".new-*")); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

// TestHistoryEnds checks that old changes are removed, and that the history then begins later.
func TestHistoryEnds(t *testing.T) {
	t.Parallel()
	w, read, _ := days(t, t.TempDir(), 12, func(o *channel.Options) { o.History = 5*24*time.Hour + time.Minute })
	if got := w.asOf(t, read[8]); got != "9" {
		t.Errorf("within the time: %s", got)
	}
	state, err := w.past(t, read[2])
	if err != nil || state.IsKnown || !state.Since.After(read[4]) || state.Since.After(read[7]) {
		t.Errorf("before: %+v, %v", state, err)
	}
}

// TestNoHistory checks that no history is kept if the setting is 0.
func TestNoHistory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w, read, path := days(t, dir, 2)
	w.stop()
	again := open(t, w.web, dir)
	again.clock.forward(w.clock.now().Sub(again.clock.now()))
	again.day(t, "3")
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the history still exists: %v", err)
	}
	if got := again.asOf(t, read[0]); got != "?3" {
		t.Errorf("got %s", got)
	}
}

// TestDamagedHistory checks that a history begins after a damaged block.
func TestDamagedHistory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w, read, path := days(t, dir, 4)
	h, err := history.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	state, _ := w.get(t, channel.Access{})
	blocks := h.To(state.Index.Meta().Snapshot)
	size := blocks[0].Disk()
	if err := h.Close(); err != nil || len(blocks) != 3 {
		t.Fatal(len(blocks), err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	good := bytes.Clone(raw)
	raw[size-3] ^= 1 // the content of the first block
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	for at, want := range map[time.Time]string{read[0]: "?2", read[1]: "2", read[2]: "3"} {
		if got := w.asOf(t, at); got != want {
			t.Errorf("at %s: %s, want %s", at, got, want)
		}
	}
	if !strings.Contains(w.log.String(), "it begins after the damaged block") {
		t.Error("the damage was not logged")
	}
	// A file that ends early does not lead to the index, so that the history begins with it.
	w.stop()
	if err := os.WriteFile(path, good[:len(good)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	again := open(t, w.web, dir, remembering)
	again.clock.forward(w.clock.now().Sub(again.clock.now()))
	if got := again.asOf(t, read[1]); got != "?4" {
		t.Errorf("with a truncated file: %s", got)
	}
	later := again.day(t, "5")
	if got := again.asOf(t, later.Add(-time.Hour)); got != "4" {
		t.Errorf("after a truncated file: %s", got)
	}
}

// TestHistoryOnFullDisk checks that a list is not replaced while its history cannot be written,
// so that no state is lost.
func TestHistoryOnFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w, read, path := days(t, dir, 2)
	aside := path + ".aside"
	if err := errors.Join(os.Rename(path, aside), os.Symlink("/dev/full", path)); err != nil {
		t.Fatal(err)
	}
	w.day(t, "3")
	state, err := w.get(t, channel.Access{})
	if got, _ := w.versions(t); got != "2" || err != nil || !strings.Contains(state.Failure, "history") {
		t.Errorf("on a full disk: %s, %+v, %v", got, state, err)
	}
	if err := os.Rename(aside, path); err != nil {
		t.Fatal(err)
	}
	w.clock.forward(time.Hour)
	if w.refresh(t); w.asOf(t, read[0]) != "1" || w.asOf(t, read[1]) != "2" || w.asOf(t, w.clock.now()) != "3" {
		t.Error("a state was lost")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".new-*")); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

// TestLargeChange checks that a history is discarded if one refresh changes more records than a
// history may hold.
func TestLargeChange(t *testing.T) {
	t.Parallel()
	w, read, _ := days(t, t.TempDir(), 2)
	var big strings.Builder
	for i := range 9000 {
		fmt.Fprintf(&big, `,"b%d-1-0.conda":{"name":"b%d","version":"1","build":"0","license":"%s"}`, i, i, strings.Repeat("x", 2000))
	}
	set := func(version, more string) time.Time {
		w.web.set("/c/linux-64/repodata.json", []byte(`{"packages.conda":{"a-`+version+`-0.conda":{"name":"a","version":"`+version+`","build":"0"}`+more+`}}`))
		w.clock.forward(24 * time.Hour)
		return w.refresh(t)
	}
	third := set("3", big.String())
	if w.asOf(t, read[0]) != "1" || w.asOf(t, third) != "3" {
		t.Error("additions are small")
	}
	fourth := set("4", "")
	if got := w.asOf(t, third); got != "?4" || w.asOf(t, fourth) != "4" {
		t.Errorf("after all was removed: %s", got)
	}
}

// TestPrivateHistory checks that a caller whose login is no longer valid cannot read the
// history.
func TestPrivateHistory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := open(t, newWeb(t), dir, remembering)
	login := channel.Access{Scope: "someone", Username: "u", Password: "p"}
	for _, version := range []string{"1", "2"} {
		w.web.set("/c/linux-64/repodata.json", repodata(version))
		w.clock.forward(24 * time.Hour)
		login.After = w.clock.now()
		if _, err := w.get(t, login); err != nil {
			t.Fatal(err)
		}
		w.settled()
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "*.history")); len(files) != 1 {
		t.Fatalf("the files are %q", files)
	}
	w.web.answers(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	w.clock.forward(24 * time.Hour)
	login.After = w.clock.now()
	if _, err := w.get(t, login); !errors.Is(err, fault.Denied) {
		t.Errorf("got %v", err)
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "*.*")); len(files) != 0 {
		t.Errorf("the files are %q", files)
	}
}

// killed holds the address of the channel, the folder and the time in a process that TestKilled
// kills.
const killed = "SLIPWAY_TEST_KILLED"

// TestKilled kills processes while they refresh a list: afterwards, each state that one of
// them has confirmed is known.
func TestKilled(t *testing.T) {
	t.Parallel()
	if text := os.Getenv(killed); text != "" {
		refreshForever(t, strings.Fields(text))
		return
	}
	site, dir, n := newWeb(t), t.TempDir(), 0
	site.answers(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/c/linux-64/repodata.json" {
			http.NotFound(w, r)
			return
		}
		n++ // requests are sequential
		fmt.Fprintf(w, `{"packages.conda":{"a-%d-0.conda":{"name":"a","version":"%d","build":"0"}`, n, n)
		for i := range 3000 {
			fmt.Fprintf(w, `,"b%d-1-0.conda":{"name":"b%d","version":"1","build":"0","size":%d}`, i, i, n)
		}
		fmt.Fprint(w, "}}")
	})
	now := time.Now().UnixMilli()
	confirmed := map[int64]string{}
	for round := range 8 {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilled$")
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %d", killed, site.URL, dir, now))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for range 2 + round%3 {
			var version string
			if _, err := fmt.Fscanf(out, "%s %d\n", &version, &now); err != nil {
				t.Fatal(err)
			}
			confirmed[now] = version
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
		now += 60_000
	}
	site.answers(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	w := open(t, site, dir, remembering)
	for ms, version := range confirmed {
		if got := w.asOf(t, time.UnixMilli(ms)); got != version {
			t.Errorf("at %d: %s, want %s", ms, got, version)
		}
	}
}

// refreshForever refreshes a list until the process is killed, and writes each version with
// the time.
func refreshForever(t *testing.T, args []string) {
	t.Helper()
	ms, err := strconv.ParseInt(args[2], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	w := open(t, &web{Server: &httptest.Server{URL: args[0]}}, args[1], remembering)
	w.clock.forward(time.UnixMilli(ms).Sub(w.clock.now()))
	for range 1000 {
		w.clock.forward(time.Second)
		w.refresh(t)
		version, err := w.versions(t)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println(version, w.clock.now().UnixMilli())
	}
}
