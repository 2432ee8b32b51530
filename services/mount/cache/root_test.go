package cache_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"slipway.dev/services/mount/cache"
)

const rootID = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"

// fill creates a root with one file.
func fill(work string) error {
	root := filepath.Join(work, "root")
	return errors.Join(os.Mkdir(root, 0o755), os.WriteFile(filepath.Join(root, "file"), []byte("content"), 0o600))
}

func TestRootIsUnpackedOnce(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "cache")
	c, now := cache.Open(dir), time.Now()
	if _, err := c.Root(rootID, now, nil); !errors.Is(err, cache.ErrMissing) {
		t.Errorf("without a function: %v", err)
	}
	failure := errors.New("x")
	if _, err := c.Root(rootID, now, func(string) error { return failure }); !errors.Is(err, failure) {
		t.Errorf("the function's error: %v", err)
	}
	calls := 0
	for range 2 {
		path, err := c.Root(rootID, now, func(work string) error {
			calls++
			return fill(work)
		})
		if raw, readErr := os.ReadFile(filepath.Join(path, "file")); err != nil || readErr != nil || string(raw) != "content" {
			t.Fatalf("%q, %v, %v", raw, err, readErr)
		}
	}
	if calls != 1 {
		t.Errorf("unpacked %d times", calls)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "tmp")); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
	below := cache.Open(filepath.Join(t.TempDir(), "empty"), dir)
	if path, err := below.Root(rootID, now, nil); err != nil || filepath.Dir(filepath.Dir(path)) != dir {
		t.Errorf("the read-only cache: %s, %v", path, err)
	}
}

// Of two processes that unpack an image, one publishes it.
func TestRootOfAnotherProcess(t *testing.T) {
	t.Parallel()
	c, now := cache.Open(t.TempDir()), time.Now()
	path, err := c.Root(rootID, now, func(work string) error {
		_, err := c.Root(rootID, now, fill)
		return errors.Join(err, fill(work))
	})
	if _, statErr := os.Stat(filepath.Join(path, "file")); err != nil || statErr != nil {
		t.Errorf("%v, %v", err, statErr)
	}
}

func TestRootThatOthersCanChange(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c, now := cache.Open(dir), time.Now()
	path, err := c.Root(rootID, now, fill)
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{path, filepath.Dir(path), dir} {
		if err := os.Chmod(folder, 0o777); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Root(rootID, now, fill); !errors.Is(err, cache.ErrUntrusted) {
			t.Errorf("%s: %v", folder, err)
		}
		if err := os.Chmod(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Rename(path, dir+"/elsewhere"), os.Symlink(dir+"/elsewhere", path)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Root(rootID, now, fill); err == nil {
		t.Error("a link to a folder is used")
	}
}

func TestUnusedRootsAreDeleted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c, now := cache.Open(dir), time.Now()
	path, err := c.Root(rootID, now, fill)
	if err != nil {
		t.Fatal(err)
	}
	const keep, day = 48 * time.Hour, 24 * time.Hour
	clean := func(at time.Time) cache.Cleaned {
		t.Helper()
		done, err := c.Clean(keep, at)
		if err = errors.Join(err, c.Problem()); err != nil {
			t.Fatal(err)
		}
		return done
	}
	if _, err := c.Root(rootID, now.Add(2*day), nil); err != nil { // used
		t.Fatal(err)
	}
	if _, err := c.Root(rootID, now.Add(2*day+time.Hour), nil); err != nil { // used again, which is recorded
		t.Fatal(err)
	}
	clean(now.Add(3 * day))
	if _, err := os.Stat(path); err != nil {
		t.Errorf("a used image was deleted: %v", err)
	}
	clean(now.Add(5 * day))
	if _, err := c.Root(rootID, now, nil); !errors.Is(err, cache.ErrMissing) {
		t.Errorf("an unused image is used: %v", err)
	}
	if done := clean(now.Add(5*day + time.Hour)); done.Files != 0 {
		t.Errorf("deleted %+v from the trash too early", done)
	}
	if done := clean(now.Add(7 * day)); done.Files != 1 || done.Bytes != int64(len("content")) {
		t.Errorf("deleted %+v from the trash", done)
	}
}

// An image that a command may use is not deleted, even if unused ones are not kept at all.
func TestUsedRootsAreKept(t *testing.T) {
	t.Parallel()
	c, now := cache.Open(t.TempDir()), time.Now()
	path, err := c.Root(rootID, now, fill)
	if err != nil {
		t.Fatal(err)
	}
	const day = 24 * time.Hour
	if _, err := c.Root(rootID, now.Add(day-time.Hour), nil); err != nil {
		t.Fatal(err)
	}
	for _, keep := range []time.Duration{0, day} {
		if _, err := c.Clean(keep, now.Add(2*day-time.Hour)); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path); err != nil {
			t.Errorf("the image of a command that started a day ago was deleted with --keep %v: %v", keep, err)
		}
	}
	if _, err := c.Clean(0, now.Add(2*day+time.Hour)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an unused image is left: %v", err)
	}
}

// A read-only cache that cannot be used, e.g. that of another user, does not hide the next one, and the image is unpacked if none has it.
func TestRootsOfUnusableCaches(t *testing.T) {
	t.Parallel()
	others, file, linked := t.TempDir(), filepath.Join(t.TempDir(), "file"), t.TempDir()
	now := time.Now()
	if _, err := cache.Open(others).Root(rootID, now, fill); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chmod(others, 0o777), os.WriteFile(file, nil, 0o600), os.Symlink(others+"/roots", linked+"/roots")); err != nil {
		t.Fatal(err)
	}
	good := t.TempDir()
	c := cache.Open(t.TempDir(), others, file, linked, file+"/below", good)
	if _, err := c.Root(rootID, now, nil); !errors.Is(err, cache.ErrMissing) || !errors.Is(err, cache.ErrUntrusted) {
		t.Errorf("only unusable caches have it: %v", err)
	}
	want, err := cache.Open(good).Root(rootID, now, fill)
	if err != nil {
		t.Fatal(err)
	}
	if path, err := c.Root(rootID, now, nil); err != nil || path != want {
		t.Errorf("%s instead of %s, %v", path, want, err)
	}
	own := t.TempDir()
	if path, err := cache.Open(own, others).Root(rootID, now, fill); err != nil || filepath.Dir(filepath.Dir(path)) != own {
		t.Errorf("%s, %v", path, err)
	}
}

// Other users of a shared cache read what a user with a strict umask has unpacked.
func TestRootsWithStrictMask(t *testing.T) {
	if dir := os.Getenv("SLIPWAY_TEST_MASK"); dir != "" {
		syscall.Umask(0o077)
		if _, err := cache.Open(dir).Root(rootID, time.Now(), fill); err != nil {
			t.Fatal(err)
		}
		return
	}
	dir := t.TempDir()
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestRootsWithStrictMask$")
	cmd.Env = append(os.Environ(), "SLIPWAY_TEST_MASK="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if info, err := os.Stat(dir + "/roots"); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("%v, %v", info, err)
	}
}
