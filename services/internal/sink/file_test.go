package sink_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"slipway.dev/services/internal/sink"
)

// lines returns records with these lines.
func lines(all ...string) (out []sink.Record) {
	for _, l := range all {
		out = append(out, sink.Record{Line: []byte(l), At: time.Date(2026, 1, 31, 12, 0, 0, 5000, time.UTC), ID: "user.create"})
	}
	return out
}

func parse(t *testing.T, address string) sink.Target {
	t.Helper()
	target, err := sink.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

func write(t *testing.T, target sink.Target, all ...string) {
	t.Helper()
	if n, err := target.Write(t.Context(), lines(all...)); err != nil || n != len(all) {
		t.Fatalf("wrote %d of %d: %v", n, len(all), err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestFile checks that lines are appended, that only the owner can read the file, and that a
// renamed file is replaced.
func TestFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	target := parse(t, path)
	write(t, target, "1", "2")
	write(t, target, "3")
	if got := read(t, path); got != "1\n2\n3\n" {
		t.Errorf("the file has %q", got)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	write(t, target, "4")
	if got, rotated := read(t, path), read(t, path+".1"); got != "4\n" || rotated != "1\n2\n3\n" {
		t.Errorf("the files have %q and %q", got, rotated)
	}
	// A process was killed while it wrote the line 5.
	if err := os.WriteFile(path, []byte("4\n5 is inc"), 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, target, "5")
	if got := read(t, path); got != "4\n5 is inc\n5\n" {
		t.Errorf("after an incomplete line the file has %q", got)
	}
}

// TestFileFails checks that what is no file is rejected without waiting.
func TestFileFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{dir: "directory", pipe: "not a regular file", filepath.Join(dir, "none", "audit.jsonl"): "no such file", "/dev/full": "not a regular file"} {
		n, err := parse(t, path).Write(t.Context(), lines("1"))
		if n != 0 || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %d, %v; want %q", path, n, err, want)
		}
	}
}

// TestFileIsPrivate checks that other users lose their permissions to a file, and that a symbolic
// link is not followed.
func TestFileIsPrivate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	for mode, want := range map[os.FileMode]os.FileMode{0o644: 0o640, 0o666: 0o660, 0o600: 0o600, 0o640: 0o640} {
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		write(t, parse(t, path), "1")
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%o became %v, %v", mode, info.Mode(), err)
		}
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	before := read(t, path)
	if n, err := parse(t, link).Write(t.Context(), lines("2")); n != 0 || err == nil || !strings.Contains(err.Error(), "is a symbolic link") {
		t.Errorf("a link: %d, %v", n, err)
	}
	if read(t, path) != before {
		t.Error("the file behind a link was written")
	}
}

// TestFileLocked checks that nothing is written while another process writes.
func TestFileLocked(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	other, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(other.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if n, err := parse(t, path).Write(t.Context(), lines("1")); n != 0 || err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("%d, %v", n, err)
	}
	// Closing alone would not unlock it while another test starts a child process, which has the
	// descriptor until then.
	if err := errors.Join(syscall.Flock(int(other.Fd()), syscall.LOCK_UN), other.Close()); err != nil {
		t.Fatal(err)
	}
	write(t, parse(t, path), "1")
	if got := read(t, path); got != "1\n" {
		t.Errorf("the file has %q", got)
	}
}

// TestFileWhileStarting checks that the start of child processes does not prolong the lock.
func TestFileWhileStarting(t *testing.T) {
	t.Parallel()
	target := parse(t, filepath.Join(t.TempDir(), "audit.jsonl"))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 50 {
			_ = exec.CommandContext(t.Context(), "true").Run() // only its start matters
		}
	}()
	for running := true; running; {
		write(t, target, "1")
		select {
		case <-done:
			running = false
		default:
		}
	}
}

// fullFile is the variable with the path of the file that TestFileFull writes in a process
// which cannot write more than 1 KiB to a file.
const fullFile = "SLIPWAY_TEST_FULL_FILE"

// TestFileFull checks that a write that fails after a part of it leaves no part.
func TestFileFull(t *testing.T) {
	t.Parallel()
	if path := os.Getenv(fullFile); path != "" {
		target := parse(t, path)
		write(t, target, strings.Repeat("a", 900))
		n, err := target.Write(t.Context(), lines("b", strings.Repeat("c", 500)))
		if n != 0 || err == nil || !strings.Contains(err.Error(), "file too large") {
			t.Errorf("%d, %v", n, err)
		}
		return
	}
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `ulimit -f 2; exec "$0" -test.run 'TestFileFull$'`, os.Args[0]) // two blocks of 512 bytes
	cmd.Env = append(os.Environ(), fullFile+"="+path)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got := read(t, path); got != strings.Repeat("a", 900)+"\n" {
		t.Errorf("the file has %d bytes: %q", len(got), got)
	}
}
