package testkit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"slipway.dev/services/internal/disk"
)

// A Disk is a small disk in memory that a test can fill.
type Disk struct {
	// Dir is the folder of the disk.
	Dir    string
	t      testing.TB
	filler string
}

// SmallDisk mounts a disk of the given size in bytes for the duration of a test. It skips the
// test without root or real servers.
func SmallDisk(t testing.TB, size int64) *Disk {
	t.Helper()
	if os.Getuid() != 0 || !Real() {
		t.Skip("mounting a small disk needs root and SLIPWAY_TEST_REAL")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=700", size)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return &Disk{Dir: dir, t: t, filler: filepath.Join(dir, "filler")}
}

// Fill writes a file until only left bytes of the disk are free.
func (d *Disk) Fill(left int64) {
	d.t.Helper()
	f, err := os.OpenFile(d.filler, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		d.t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	block := make([]byte, 1<<16)
	for {
		space, err := disk.Of(d.Dir)
		if err != nil {
			d.t.Fatal(err)
		}
		n := min(space.Free-left, int64(len(block)))
		if n <= 0 {
			return
		}
		if _, err := f.Write(block[:n]); errors.Is(err, syscall.ENOSPC) {
			return
		} else if err != nil {
			d.t.Fatal(err)
		}
	}
}

// Free deletes the file of Fill.
func (d *Disk) Free() {
	d.t.Helper()
	if err := os.Remove(d.filler); err != nil {
		d.t.Fatal(err)
	}
}
