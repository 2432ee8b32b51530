package disk

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

// TestOf checks that a path that does not exist has the space of its parent's disk.
func TestOf(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	space, err := Of(filepath.Join(dir, "missing", "folder"))
	if err != nil {
		t.Fatal(err)
	}
	if space.Free <= 0 || space.Free > space.Size {
		t.Errorf("the space is %+v", space)
	}
	parent, err := Of(dir)
	if err != nil || parent.Size != space.Size {
		t.Errorf("the parent's disk has %d bytes, the folder's %d: %v", parent.Size, space.Size, err)
	}
}

// TestCheck checks when a disk counts as too full.
func TestCheck(t *testing.T) {
	t.Parallel()
	const reserve = 1 << 30
	for name, c := range map[string]struct {
		reserve int64
		space   Space
		err     error
		want    string
	}{
		"enough":       {reserve: reserve, space: Space{Free: reserve, Size: 10 * reserve}},
		"too little":   {reserve: reserve, space: Space{Free: reserve - 1, Size: 10 * reserve}, want: "has 1023 MiB left, less than disk_reserve (1.0 GiB)"},
		"no reserve":   {space: Space{Size: 10 * reserve}},
		"unmeasurable": {reserve: reserve, err: errors.New("input/output error"), want: "the free space of data_dir cannot be measured: input/output error"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := NewWatch(c.reserve, Folder{Name: "data_dir", Path: t.TempDir()})
			w.of = func(string) (Space, error) { return c.space, c.err }
			err := w.Check()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("the error is %v, want %q", err, c.want)
			}
		})
	}
}

// TestOneDisk checks that a disk with two folders is watched once.
func TestOneDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := NewWatch(0, Folder{"data_dir", dir}, Folder{"blob_cache", filepath.Join(dir, "blobs")})
	if len(w.Folders()) != 1 || w.Folders()[0].Name != "data_dir" {
		t.Errorf("the watched folders are %v", w.Folders())
	}
}
