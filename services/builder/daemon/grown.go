package daemon

import (
	"io/fs"
	"path/filepath"
	"syscall"
	"time"
)

// grown returns how many bytes the files below dir grew: the space of files that were
// created or changed since a time. Files in layers keep the times of their archive, so the
// inode change time is used.
func grown(dir string, since time.Time) int64 {
	var sum int64
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil //nolint:nilerr // files come and go under us
		}
		info, err := e.Info()
		if err != nil {
			return nil //nolint:nilerr // gone
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if ok && time.Unix(st.Ctim.Unix()).After(since) {
			sum += st.Blocks * 512
		}
		return nil
	})
	return sum
}
