package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/run"
)

// insteadOfCache is what happens if nothing can be stored.
const insteadOfCache = "commands run, but each of them fetches again what it reads"

// What happens if other users can change the files of a cache.
const (
	insteadOfOwner = "files are verified at each read, which is slower, and whole images cannot be run (`slipway run --base`, `slipway singularity`)"
	insteadOfLower = "files are verified at each read, which is slower, and whole images are unpacked into the other cache"
)

// littleSpace is the free space below which there is a warning, in bytes: a large environment takes as much.
const littleSpace = 2 << 30

// cacheFindings checks the folders of the cache.
func cacheFindings(folders run.CacheFlags) []finding {
	c, err := folders.Open()
	if err != nil {
		return []finding{{Check: "cache", State: fail, Text: err.Error(), Do: "set SLIPWAY_CACHE to a folder"}}
	}
	out := []finding{writable(c.Dir()), space(c.Dir()), owner("cache owner", c.Dir(), insteadOfOwner)}
	for _, dir := range c.Lower() {
		if _, err := os.ReadDir(dir); err != nil {
			out = append(out, finding{Check: "read-only cache", State: warn, Text: err.Error(), Do: "correct SLIPWAY_CACHE_LOWER", Instead: "the other caches are used"})
			continue
		}
		out = append(out, finding{Check: "read-only cache", State: ok, Text: dir + " is on " + kindOf(dir)}, owner("read-only cache owner", dir, insteadOfLower))
	}
	return out
}

// writable tries to create and rename a file, as the cache does.
func writable(dir string) finding {
	f := finding{Check: "cache", State: ok, Text: dir + " is on " + kindOf(existing(dir))}
	if err := tryWrite(dir); err != nil {
		return finding{Check: "cache", State: fail, Text: f.Text + ", and cannot be written: " + err.Error(), Do: "set SLIPWAY_CACHE to a folder that you can write", Instead: insteadOfCache}
	}
	return f
}

func tryWrite(dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		parent := existing(dir)
		if err := unix.Access(parent, unix.W_OK|unix.X_OK); err != nil {
			return &fs.PathError{Op: "creating it in", Path: parent, Err: err}
		}
		return nil
	}
	f, err := os.CreateTemp(dir, "doctor-")
	if err != nil {
		return err
	}
	path, other := f.Name(), f.Name()+"-renamed"
	_, err = f.Write(make([]byte, 4096))
	if err = errors.Join(err, f.Close()); err == nil {
		if err = os.Rename(path, other); err == nil {
			path = other
		}
	}
	return errors.Join(err, os.Remove(path))
}

// existing returns a folder, or its nearest parent that exists.
func existing(dir string) string {
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(at); !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at) {
			return at
		}
	}
}

// space checks the free space of the disk.
func space(dir string) finding {
	var s unix.Statfs_t
	if err := unix.Statfs(existing(dir), &s); err != nil {
		return finding{Check: "cache space", State: warn, Text: "the free space is unknown: " + err.Error()}
	}
	free := float64(s.Bavail) * float64(s.Bsize)
	f := finding{Check: "cache space", State: ok, Text: output.BytesText(free) + " are free"}
	if free < littleSpace {
		f.State, f.Do, f.Instead = warn, "free space, e.g. with `slipway cache gc --keep 7d`, or set SLIPWAY_CACHE to a folder on another disk", insteadOfCache
	}
	return f
}

// owner checks that other users cannot change the files of a cache, and otherwise states what is done instead.
func owner(check, dir, instead string) finding {
	var st unix.Stat_t
	at := existing(dir)
	if err := unix.Stat(at, &st); err != nil {
		return finding{Check: check, State: warn, Text: err.Error()}
	}
	f := finding{Check: check, State: ok, Text: "only you and root can change its files"}
	switch {
	case at != dir:
		f.Text = "it does not exist yet; the first command creates it"
	case st.Uid != 0 && int(st.Uid) != os.Getuid():
		f.Text = fmt.Sprintf("it belongs to the user %d", st.Uid)
	case st.Mode&(unix.S_IWGRP|unix.S_IWOTH) != 0:
		f.Text = fmt.Sprintf("other users can write it: its mode is %#o", st.Mode&0o7777)
	default:
		return f
	}
	if at == dir {
		f.State, f.Do, f.Instead = warn, "let it belong to you or to root, and remove the rights of others to write it: `chmod go-w`", instead
	}
	return f
}

// kindOf returns the kind of the file system of a path.
func kindOf(path string) string {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return "an unknown file system"
	}
	kinds := map[uint32]string{
		unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "XFS", unix.BTRFS_SUPER_MAGIC: "Btrfs", 0x2fc12fc1: "ZFS", unix.OVERLAYFS_SUPER_MAGIC: "overlayfs",
		unix.TMPFS_MAGIC: "tmpfs, which is memory and lost at a restart", unix.NFS_SUPER_MAGIC: "NFS, which machines may share", 0x0bd00bd0: "Lustre, which machines may share",
		0x47504653: "GPFS, which machines may share", 0x19830326: "BeeGFS, which machines may share", 0x00c36400: "CephFS, which machines may share",
		unix.SMB2_SUPER_MAGIC: "SMB", unix.CIFS_SUPER_MAGIC: "SMB", unix.FUSE_SUPER_MAGIC: "a FUSE file system",
	}
	if name, ok := kinds[uint32(s.Type)]; ok {
		return name
	}
	return fmt.Sprintf("a file system of the kind %#x", uint32(s.Type))
}
