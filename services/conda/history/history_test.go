package history_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway.dev/services/conda/history"
)

// snapshot returns a digest that consists of one character.
func snapshot(c byte) string { return "sha256:" + strings.Repeat(string(c), 64) }

func at(hour int) time.Time { return time.Date(2026, 3, 1, hour, 0, 0, 0, time.UTC) }

// lax is a limit that no test exceeds.
func lax() history.Limit { return history.Limit{Changes: 1000, Size: 1 << 20} }

func open(t testing.TB, path string) *history.File {
	t.Helper()
	h, err := history.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// add appends the change from one state to another, with changes written as "name/file=raw".
func add(h *history.File, from, to byte, hour int, most history.Limit, changes ...string) error {
	b := history.Block{Before: snapshot(from), After: snapshot(to), Since: at(hour - 2), Until: at(hour - 1), At: at(hour)}
	return h.Append(h.To(b.Before), b, most, func(add func(history.Change) error) error {
		for _, c := range changes {
			name, rest, _ := strings.Cut(c, "/")
			file, raw, _ := strings.Cut(rest, "=")
			if err := add(history.Change{Name: []byte(name), FileName: []byte(file), Raw: []byte(raw)}); err != nil {
				return err
			}
		}
		return nil
	})
}

// three writes a history from a over b and c to d.
func three(t testing.TB, path string) {
	t.Helper()
	h := open(t, path)
	for i, changes := range [][]string{{"x/x-1.conda={}", "y/y-1.conda="}, nil, {"z/z-2.conda={\"name\":\"z\"}"}} {
		if err := add(h, "abc"[i], "bcd"[i], 10+i, lax(), changes...); err != nil {
			t.Fatal(err)
		}
	}
}

// text formats the changes in a history that lead to a state.
func text(t testing.TB, path string, to byte) string {
	t.Helper()
	h := open(t, path)
	var out []string
	for _, b := range h.To(snapshot(to)) {
		one := fmt.Sprintf("%c>%c@%d", b.Before[7], b.After[7], b.At.Hour())
		err := h.Changes(b, func(c history.Change) error {
			one += fmt.Sprintf(" %s/%s=%s", c.Name, c.FileName, c.Raw)
			return nil
		})
		if errors.Is(err, history.ErrDamaged) {
			one += " damaged"
		} else if err != nil {
			t.Fatal(err)
		}
		out = append(out, one)
	}
	return strings.Join(out, "; ")
}

const all = `a>b@10 x/x-1.conda={} y/y-1.conda=; b>c@11; c>d@12 z/z-2.conda={"name":"z"}`

func TestHistory(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.history")
	if got := text(t, path, 'a'); got != "" {
		t.Errorf("a missing file has %q", got)
	}
	three(t, path)
	for to, want := range map[byte]string{'d': all, 'c': "a>b@10 x/x-1.conda={} y/y-1.conda=; b>c@11", 'a': "", 'e': ""} {
		if got := text(t, path, to); got != want {
			t.Errorf("to %c: %q, want %q", to, got, want)
		}
	}
	// A refresh that was not completed is replaced.
	if err := add(open(t, path), 'c', 'e', 13, lax(), "q/q-1.conda="); err != nil {
		t.Fatal(err)
	}
	if got, want := text(t, path, 'e'), "a>b@10 x/x-1.conda={} y/y-1.conda=; b>c@11; c>e@13 q/q-1.conda="; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	// A history that does not lead to the state is discarded.
	if err := add(open(t, path), '1', '2', 14, lax()); err != nil {
		t.Fatal(err)
	}
	if got := text(t, path, '2'); got != "1>2@14" {
		t.Errorf("got %q", got)
	}
}

// TestDamage changes each byte of a file, and truncates the file everywhere. The blocks that are
// still read must be the last ones of the history, and changed content must be noticed.
func TestDamage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "x.history")
	three(t, path)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(all, "; ")
	expected := map[string]bool{"": true, all: true, strings.Join(blocks[1:], "; "): true, blocks[2]: true}
	for i := range blocks {
		damaged := append([]string{}, blocks...)
		damaged[i], _, _ = strings.Cut(damaged[i], " ")
		damaged[i] += " damaged"
		expected[strings.Join(damaged, "; ")] = true
	}
	seen := map[string]int{}
	for i := range raw {
		changed := bytes.Clone(raw)
		changed[i] ^= 0x40
		if err := os.WriteFile(path, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		got := text(t, path, 'd')
		if !expected[got] {
			t.Fatalf("with byte %d changed: %q", i, got)
		}
		seen[got]++
		if err := os.WriteFile(path, raw[:i], 0o600); err != nil {
			t.Fatal(err)
		}
		if got := text(t, path, 'd'); got != "" {
			t.Fatalf("with %d bytes: %q", i, got)
		}
	}
	if len(seen) != len(expected)-1 { // a changed byte is always noticed
		t.Errorf("there are %d outcomes: %v", len(seen), seen)
	}
	// A block that is appended to a truncated file follows its last complete block.
	if err := os.WriteFile(path, raw[:len(raw)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	if err := add(open(t, path), 'c', 'd', 12, lax(), `z/z-2.conda={"name":"z"}`); err != nil {
		t.Fatal(err)
	}
	if got := text(t, path, 'd'); got != all {
		t.Errorf("got %q", got)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.history")
	three(t, path)
	h := open(t, path)
	for _, most := range []history.Limit{{Changes: 1, Size: 1 << 20}, {Changes: 10, Size: 20}} {
		if err := add(h, 'd', 'e', 13, most, "a/a-1.conda={}", "b/b-1.conda={}"); !errors.Is(err, history.ErrTooLarge) {
			t.Errorf("%v: %v", most, err)
		}
		if got := text(t, path, 'd'); got != all {
			t.Errorf("after an error: %q", got)
		}
	}
	if err := add(h, 'd', 'e', 13, lax(), strings.Repeat("n", 256)+"/a-1.conda={}"); err == nil {
		t.Error("a name that is too long was stored")
	}
	blocks := h.To(snapshot('d'))
	for most, want := range map[history.Limit]int{{Changes: 3, Size: 1000}: 3, {Changes: 2, Size: 1000}: 2, {Changes: 0, Size: 1000}: 0, {Changes: 3, Size: 50}: 2} {
		if got := history.Within(blocks, most); len(got) != want {
			t.Errorf("within %v: %d, want %d", most, len(got), want)
		}
	}
}

func TestTrim(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.history")
	three(t, path)
	reader := open(t, path)
	before := reader.To(snapshot('d'))
	h := open(t, path)
	if err := h.Trim(h.To(snapshot('d'))[1:]); err != nil {
		t.Fatal(err)
	}
	if got := text(t, path, 'd'); got != strings.Join(strings.Split(all, "; ")[1:], "; ") {
		t.Errorf("got %q", got)
	}
	// A reader of the previous file finds its blocks in the new one.
	if b, ok := h.Find(before[2]); !ok || h.Changes(b, func(history.Change) error { return nil }) != nil {
		t.Errorf("a block that moved was not found")
	}
	if _, ok := h.Find(before[0]); ok {
		t.Error("a removed block was found")
	}
	if err := reader.Changes(before[0], func(history.Change) error { return nil }); err != nil {
		t.Errorf("a reader of the previous file: %v", err)
	}
	if err := add(h, 'd', 'e', 13, lax()); err != nil {
		t.Fatal(err)
	}
	if got := len(open(t, path).To(snapshot('e'))); got != 3 {
		t.Errorf("after another refresh there are %d blocks", got)
	}
	if err := h.Trim(h.To(snapshot('e'))); err != nil || len(h.To(snapshot('e'))) != 3 {
		t.Errorf("nothing to remove: %v", err)
	}
}

// TestFullDisk checks that a history that cannot be written is an error.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.history")
	if err := os.Symlink("/dev/full", path); err != nil {
		t.Fatal(err)
	}
	if err := add(open(t, path), 'a', 'b', 10, lax(), "x/x-1.conda={}"); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("got %v", err)
	}
}

// FuzzRead checks that any file is read without a panic and within its limits.
func FuzzRead(f *testing.F) {
	path := filepath.Join(f.TempDir(), "x.history")
	three(f, path)
	raw, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add(raw[:len(raw)/2])
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, raw []byte) {
		path := filepath.Join(dir, "x.history")
		if err := os.WriteFile(path, history.Seal(raw), 0o600); err != nil {
			t.Fatal(err)
		}
		h, err := history.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range h.All() {
			n, size := 0, int64(0)
			err := h.Changes(b, func(c history.Change) error {
				n++
				size += int64(len(c.Name) + len(c.FileName) + len(c.Raw))
				return nil
			})
			if size > b.Size || err == nil && n != b.Changes {
				t.Errorf("%d changes of %d bytes in %+v", n, size, b)
			}
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
}
